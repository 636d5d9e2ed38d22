/**
 * OpenAPI drift: the description made from the routes is the one in docs/openapi.json, so that a change of the API is seen in review.
 * Works on what is built (dist). Nest's preview mode builds the application without making a single provider: no database, no queue,
 * no port.
 */
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';

const FILE = 'docs/openapi.json';
const DIST = 'apps/backend/dist';
/** Where they stand is known without the prefix; as in create-backend.ts. */
const OUTSIDE_PREFIX = ['health', 'health/ready'];

export async function checkOpenApi(root, { isWriting = false } = {}) {
  const made = await describe(root);
  const routes = Object.keys(made.paths);
  const text = `${JSON.stringify(made, null, 2)}\n`;
  const path = join(root, FILE);
  const seen = `${routes.length} paths`;
  if (isWriting) {
    writeFileSync(path, text);
    return { findings: [], seen: `${seen} written to ${FILE}` };
  }
  const kept = existsSync(path) ? readFileSync(path, 'utf8') : '{}';
  const findings =
    kept === text
      ? []
      : findDifferences(JSON.parse(kept), made).map((what) => ({
          rule: 'openapi-drift',
          file: FILE,
          message: `${what}; \`pnpm check --write openapi\` writes it`,
        }));
  if (kept !== text && findings.length === 0)
    findings.push({ rule: 'openapi-drift', file: FILE, message: 'is written differently; `pnpm check --write openapi` writes it' });
  if (routes.length === 0) findings.push({ rule: 'blind', message: 'no route was found' });
  return { findings, seen };
}

async function describe(root) {
  if (!existsSync(join(root, DIST, 'app.module.js'))) throw new Error(`${DIST} is not there: \`pnpm build\` makes it`);
  const load = (file) => import(pathToFileURL(join(root, DIST, file)).href);
  const { AppModule } = await load('app.module.js');
  const { createDataSource } = await load('database/data-source.js');
  const { describeApi } = await load('http/api-docs.js');
  const { createHttpAdapter, HTTP_OPTIONS, setUpHttp } = await load('http/set-up-http.js');
  const { readSettings } = await load('settings.js');
  const { NestFactory } = await import(pathToFileURL(createRequire(join(root, DIST, 'app.module.js')).resolve('@nestjs/core')).href);

  const settings = readSettings({
    DATABASE_URL: 'postgres://127.0.0.1/none',
    VALKEY_URL: 'redis://127.0.0.1',
    BACKEND_MICROSERVICE_SECRET: '-'.repeat(32),
    ONWARD_SECRET_KEY: '-'.repeat(32),
  });
  const source = createDataSource(settings.databaseUrl, 2, () => undefined);
  const app = await NestFactory.create(AppModule.of(settings, source), createHttpAdapter(), {
    ...HTTP_OPTIONS,
    preview: true,
    logger: false,
    abortOnError: false,
  });
  setUpHttp(app, undefined, OUTSIDE_PREFIX);
  return describeApi(app);
}

/** Names the operations that differ, and says when something beside them does. */
function findDifferences(kept, made) {
  const before = operationsOf(kept);
  const after = operationsOf(made);
  const beside = (description) => JSON.stringify({ ...description, paths: undefined });
  return [
    ...[...after.keys()].filter((name) => !before.has(name)).map((name) => `${name} is new`),
    ...[...before.keys()].filter((name) => !after.has(name)).map((name) => `${name} is gone`),
    ...[...after].filter(([name, operation]) => before.has(name) && before.get(name) !== operation).map(([name]) => `${name} has changed`),
    ...(beside(kept) === beside(made) ? [] : ['something beside the operations has changed']),
  ];
}

/** `GET /path` → the text of what is said about it. */
function operationsOf({ paths = {} }) {
  const entries = Object.entries(paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => [`${method.toUpperCase()} ${path}`, JSON.stringify(operation)]),
  );
  return new Map(entries);
}
