import { randomBytes } from 'node:crypto';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { ensureDatabase, urlOfDatabase } from '@onward/stack/ensure-database';
import pg from 'pg';
import { afterAll, beforeAll, expect, inject, test } from 'vitest';
import { type Backend, createBackend } from '../../src/create-backend.js';
import { createDataSource } from '../../src/database/data-source.js';
import { MIGRATIONS } from '../../src/database/migrations.js';
import { migrate } from '../../src/database/migrate.js';
import { rows } from '../../src/database/sql.js';
import { readSettings } from '../../src/settings.js';

const name = `onward_empty_${randomBytes(6).toString('hex')}`;
const folder = mkdtempSync(join(tmpdir(), 'onward-migrations-'));
const keyFile = join(folder, 'first-key');
const { postgresUrl, valkeyUrl } = inject('ground');
let databaseUrl: string;
let backends: Backend[] = [];

beforeAll(async () => {
  databaseUrl = await ensureDatabase(postgresUrl, name);
});
afterAll(async () => {
  await Promise.all(backends.map((backend) => backend.close()));
  const client = new pg.Client({ connectionString: urlOfDatabase(postgresUrl, 'postgres') });
  await client.connect();
  await client.query(`DROP DATABASE ${pg.escapeIdentifier(name)}`);
  await client.end();
  rmSync(folder, { recursive: true });
});

test('five backends that start at once on an empty database all come up, with one schema and one first key', async () => {
  const settings = () =>
    readSettings({
      NODE_ENV: 'test',
      DATABASE_URL: databaseUrl,
      DATABASE_POOL_SIZE: '3',
      VALKEY_URL: valkeyUrl,
      PORT: '0',
      BACKEND_MICROSERVICE_PORT: '0',
      BACKEND_MICROSERVICE_SECRET: randomBytes(32).toString('hex'),
      ONWARD_SECRET_KEY: randomBytes(32).toString('hex'),
      ONWARD_FIRST_KEY_FILE: keyFile,
      LOG_LEVEL: 'silent',
    });
  const started = await Promise.allSettled(Array.from({ length: 5 }, () => createBackend(settings())));
  backends = started.flatMap((one) => (one.status === 'fulfilled' ? [one.value] : []));
  expect(started.flatMap((one) => (one.status === 'rejected' ? [String(one.reason)] : []))).toEqual([]);
  const { source } = backends[0] as Backend;
  expect(await rows(source, 'SELECT name FROM migrations ORDER BY id')).toEqual(MIGRATIONS.map((migration) => ({ name: new migration().name })));
  expect(await rows(source, 'SELECT name FROM api_keys')).toEqual([{ name: 'first' }]);
  const key = readFileSync(keyFile, 'utf8').trim();
  for (const { port } of backends) {
    expect((await fetch(`http://127.0.0.1:${port}/health/ready`)).status).toBe(200);
    expect((await fetch(`http://127.0.0.1:${port}/api/v1/contacts`, { headers: { authorization: `Bearer ${key}` } })).status).toBe(200);
  }
});

test('whoever migrates waits for the one who migrates already', async () => {
  const holder = new pg.Client({ connectionString: databaseUrl });
  await holder.connect();
  const source = createDataSource(databaseUrl, 2, () => undefined);
  await source.initialize();
  try {
    await holder.query('SELECT pg_advisory_lock(7269104)');
    let isDone = false;
    const migrating = migrate(source, databaseUrl).then(() => {
      isDone = true;
    });
    const waiting = `SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'onward-migrate' AND wait_event = 'advisory'`;
    await expect.poll(async () => (await holder.query(waiting)).rowCount).toBe(1);
    expect(isDone).toBe(false);
    await holder.query('SELECT pg_advisory_unlock(7269104)');
    await migrating;
  } finally {
    await source.destroy();
    await holder.end();
  }
});

test('a schema that is the newest already is left as it is', async () => {
  const source = createDataSource(databaseUrl, 2, () => undefined);
  await source.initialize();
  try {
    await migrate(source, databaseUrl);
    expect(await rows(source, 'SELECT name FROM migrations')).toHaveLength(MIGRATIONS.length);
  } finally {
    await source.destroy();
  }
});
