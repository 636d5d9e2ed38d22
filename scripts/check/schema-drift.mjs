/**
 * Schema drift: migrates an empty database of an embedded PostgreSQL and asks TypeORM what it would still change to make the entities
 * true. Nothing may be left, and every table must be known. Works on what is built (dist).
 * Not seen: the text of a CHECK, and indexes, functions and triggers that only the migration knows.
 */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';

export async function checkSchemaDrift(root) {
  const load = (file) => import(pathToFileURL(requireBuilt(root, file)).href);
  const [{ startTestServices }, { ensureDatabase }, { createDataSource }, { migrate }] = await Promise.all([
    load('packages/stack/dist/test-services.js'),
    load('packages/stack/dist/ensure-database.js'),
    load('apps/backend/dist/database/data-source.js'),
    load('apps/backend/dist/database/migrate.js'),
  ]);
  const services = await startTestServices({ valkeyUrl: 'not needed' });
  try {
    const url = await ensureDatabase(services.postgresUrl, 'schema_drift');
    const source = createDataSource(url, 2, () => undefined);
    await source.initialize();
    try {
      await migrate(source, url);
      return await compare(source);
    } finally {
      await source.destroy();
    }
  } finally {
    await services.stop();
  }
}

async function compare(source) {
  const { upQueries } = await source.driver.createSchemaBuilder().log();
  const known = [...source.entityMetadatas.map(({ tableName }) => tableName), source.options.migrationsTableName ?? 'migrations'];
  const tables = await source.query("SELECT tablename AS name FROM pg_tables WHERE schemaname = 'public'");
  const findings = [
    ...upQueries.map(({ query }) => ({ rule: 'entity-drift', message: `the entities would still need: ${query}` })),
    ...tables.filter(({ name }) => !known.includes(name)).map(({ name }) => ({ rule: 'table-without-entity', message: `no entity has the table ${name}` })),
  ];
  if (source.entityMetadatas.length === 0) findings.push({ rule: 'blind', message: 'no entity was found' });
  return { findings, seen: `${source.entityMetadatas.length} entities, ${tables.length} tables` };
}

function requireBuilt(root, file) {
  const path = join(root, file);
  if (!existsSync(path)) throw new Error(`${file} is not there: \`pnpm build\` makes it`);
  return path;
}
