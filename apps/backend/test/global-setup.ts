import { randomBytes } from 'node:crypto';
import { ensureDatabase, urlOfDatabase } from '@onward/stack/ensure-database';
import startServices from '@onward/stack/test-services';
import pg from 'pg';
import type { TestProject } from 'vitest/node';
import { createApiKey } from '../src/access/create-api-key.js';
import { createDataSource } from '../src/database/data-source.js';
import { migrate } from '../src/database/migrate.js';
import { transact } from '../src/database/sql.js';

/** What test files need to make a backend of their own. */
export type TestGround = { postgresUrl: string; valkeyUrl: string; template: string; apiKey: string };

declare module 'vitest' {
  interface ProvidedContext {
    ground: TestGround;
  }
}

/** Starts a real Postgres and Valkey, or takes those named in the environment, and migrates one database of which every test file gets a copy. */
export default async function setUp(project: TestProject): Promise<() => Promise<void>> {
  const stopServices = await startServices();
  const postgresUrl = required('ONWARD_TEST_POSTGRES_URL');
  const template = `onward_template_${randomBytes(6).toString('hex')}`;
  const templateUrl = await ensureDatabase(postgresUrl, template);
  const source = createDataSource(templateUrl, 2, () => undefined);
  await source.initialize();
  await migrate(source, templateUrl);
  const { key } = await transact(source, (tx) => createApiKey(tx, 'tests'));
  await source.destroy();
  project.provide('ground', { postgresUrl, valkeyUrl: required('ONWARD_TEST_VALKEY_URL'), template, apiKey: key });

  return async () => {
    const client = new pg.Client({ connectionString: urlOfDatabase(postgresUrl, 'postgres') });
    await client.connect();
    await client.query(`DROP DATABASE IF EXISTS ${pg.escapeIdentifier(template)}`);
    await client.end();
    await stopServices();
  };
}

function required(name: string): string {
  const value = process.env[name];
  if (value === undefined || value === '') throw new Error(`${name} is not set`);
  return value;
}
