import { Client } from 'pg';
import { createApiKey } from '../../src/access/create-api-key.js';
import { createBackend } from '../../src/create-backend.js';
import { newId } from '../../src/database/new-id.js';
import { readSettings } from '../../src/settings.js';
export async function backendForTest() {
  const server = new URL(process.env['ONWARD_TEST_POSTGRES_URL'] ?? '');
  const name = `wf_${newId().replaceAll('-', '')}`;
  const client = new Client({ connectionString: server.href });
  await client.connect();
  await client.query(`CREATE DATABASE ${name}`);
  await client.end();
  const backend = await createBackend(readSettings({ NODE_ENV: 'test', DATABASE_URL: Object.assign(new URL(server), { pathname: `/${name}` }).href, VALKEY_URL: process.env['ONWARD_TEST_VALKEY_URL'] ?? '', PORT: '0', BACKEND_MICROSERVICE_PORT: '0', BACKEND_MICROSERVICE_SECRET: 'x'.repeat(32), ONWARD_SECRET_KEY: 'y'.repeat(32), ONWARD_TEST_CLOCK: '1', LOG_LEVEL: 'warn' }));
  const { key } = await backend.source.transaction((tx) => createApiKey(tx, 'tester'));
  return {
    source: backend.source,
    async api(method: string, path: string, body?: unknown, headers: Record<string, string> = {}) {
      const response = await fetch(`http://127.0.0.1:${backend.port}/api/v1${path}`, { method, headers: { authorization: `Bearer ${key}`, ...(body === undefined ? {} : { 'content-type': 'application/json' }), ...headers }, ...(body === undefined ? {} : { body: JSON.stringify(body) }) });
      const text = await response.text();
      return { status: response.status, body: text === '' ? undefined : JSON.parse(text) };
    },
    close: () => backend.close(),
  };
}
