import { existsSync } from 'node:fs';
import { dirname } from 'node:path';
import pg from 'pg';
import { Redis } from 'ioredis';
import { expect, test } from 'vitest';
import { publishTestServices, readTestServices } from '../src/environment.js';
import { birthOf } from '../src/process-birth.js';
import setUpServices, { startTestServices } from '../src/test-services.js';
import { endAfterTest } from './end-after-test.js';
import { runChild } from './run-child.js';

async function dataFolderOf(postgresUrl: string): Promise<string> {
  const client = new pg.Client({ connectionString: postgresUrl });
  await client.connect();
  const { rows } = await client.query<{ folder: string; super: boolean }>(
    `SELECT current_setting('data_directory') AS folder, usesuper AS super FROM pg_user WHERE usename = current_user`,
  );
  await client.end();
  expect(rows[0]?.super).toBe(true);
  return rows[0]?.folder ?? '';
}

test('a test run gets a superuser of a real PostgreSQL and a real Valkey; a run inside it uses those and leaves them; in the end nothing is left', async () => {
  const before = readTestServices();
  const services = await startTestServices();
  const folder = dirname(await dataFolderOf(services.postgresUrl));
  publishTestServices(services);
  const tearDown = await setUpServices();
  expect(readTestServices()).toEqual({ postgresUrl: services.postgresUrl, valkeyUrl: services.valkeyUrl });
  await tearDown();
  publishTestServices(before);
  expect(dirname(await dataFolderOf(services.postgresUrl))).toBe(folder);
  const client = new Redis(services.valkeyUrl);
  expect(await client.ping()).toBe('PONG');
  client.disconnect();
  await services.stop();
  expect(existsSync(folder)).toBe(false);
});

test('what a killed test run left is ended and removed by the next one', async () => {
  const killed = runChild('start-test-services.mjs', []);
  const left = JSON.parse(await killed.nextLine()) as { folder: string; pids: readonly number[] };
  endAfterTest(...left.pids);
  await killed.end('SIGKILL');
  expect(left.pids.map((pid) => birthOf(pid) !== undefined)).toEqual([true, true]);
  const next = await startTestServices();
  expect(left.pids.map((pid) => birthOf(pid))).toEqual([undefined, undefined]);
  expect(existsSync(left.folder)).toBe(false);
  await next.stop();
});
