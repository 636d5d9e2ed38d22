import { randomBytes } from 'node:crypto';
import { urlOfDatabase } from '@onward/stack/ensure-database';
import { Redis } from 'ioredis';
import pg from 'pg';
import type { DataSource } from 'typeorm';
import { inject } from 'vitest';
import { type Backend, createBackend } from '../src/create-backend.js';
import { readSettings, type Settings } from '../src/settings.js';

export type Answer<Body = unknown> = { status: number; body: Body; headers: Headers };
export type Sent = { headers?: Record<string, string> /** Another key, or null for none. */; key?: string | null };

export type BackendForTest = {
  /** Sends JSON; a Buffer or text goes as it is, with the content type given in `headers`. The path stands below /api/v1 unless it begins with `//`. */
  api<Body = unknown>(method: string, path: string, body?: unknown, sent?: Sent): Promise<Answer<Body>>;
  source: DataSource;
  /** Moves the clock of due times, forward only; resolves after a full sweep. */
  clock: { advance(duration: string): Promise<void> };
  url: string;
  apiKey: string;
  settings: Settings;
  backend: Backend;
  databaseUrl: string;
  valkeyUrl: string;
  /** Closes the backend and removes its database. Fails when a connection was left open. */
  close(): Promise<void>;
};

/**
 * A whole backend of this test file: a copy of the migrated database, a Valkey database of this worker, free ports, the test clock on and
 * waits as short as they are written. `env` overrides settings by the names of the environment.
 */
export async function backendForTest(env: Record<string, string> = {}): Promise<BackendForTest> {
  const { postgresUrl, valkeyUrl: valkey, template, apiKey } = inject('ground');
  const name = `onward_test_${randomBytes(6).toString('hex')}`;
  await admin(postgresUrl, `CREATE DATABASE ${pg.escapeIdentifier(name)} TEMPLATE ${pg.escapeIdentifier(template)}`);
  const databaseUrl = urlOfDatabase(postgresUrl, name);
  const valkeyUrl = await emptyValkey(valkey);
  const settings = readSettings({
    NODE_ENV: 'test',
    DATABASE_URL: databaseUrl,
    DATABASE_POOL_SIZE: '10',
    VALKEY_URL: valkeyUrl,
    PORT: '0',
    BACKEND_MICROSERVICE_PORT: '0',
    BACKEND_MICROSERVICE_SECRET: randomBytes(32).toString('hex'),
    ONWARD_SECRET_KEY: randomBytes(32).toString('hex'),
    AUTOMATIONS_LEASE_MS: '2000',
    AUTOMATIONS_MINIMUM_WAIT_MS: '0',
    ONWARD_TEST_CLOCK: '1',
    LOG_LEVEL: 'silent',
    ...env,
  });
  const backend = await createBackend(settings);
  const url = `http://127.0.0.1:${backend.port}`;

  const api = async <Body>(method: string, path: string, body?: unknown, { headers = {}, key = apiKey }: Sent = {}): Promise<Answer<Body>> => {
    const isRaw = typeof body === 'string' || Buffer.isBuffer(body);
    const response = await fetch(path.startsWith('//') ? `${url}${path.slice(1)}` : `${url}/api/v1${path}`, {
      method,
      redirect: 'manual',
      headers: {
        ...(key === null ? {} : { authorization: `Bearer ${key}` }),
        ...(body === undefined || isRaw ? {} : { 'content-type': 'application/json' }),
        ...headers,
      },
      ...(body === undefined ? {} : { body: isRaw ? (body as string) : JSON.stringify(body) }),
    });
    const text = await response.text();
    const isJson = /json/.test(response.headers.get('content-type') ?? '');
    return { status: response.status, headers: response.headers, body: (text === '' ? null : isJson ? JSON.parse(text) : text) as Body };
  };

  return {
    api,
    source: backend.source,
    clock: {
      async advance(duration) {
        const { status, body } = await api('POST', '/test/clock', { advance: duration });
        if (status !== 200) throw new Error(`The clock did not move: ${status} ${JSON.stringify(body)}`);
      },
    },
    url,
    apiKey,
    settings,
    backend,
    databaseUrl,
    valkeyUrl,
    async close() {
      await backend.close();
      // Without FORCE: Postgres waits a little for connections to go and then refuses, which is how a leak is found.
      await admin(postgresUrl, `DROP DATABASE ${pg.escapeIdentifier(name)}`);
    },
  };
}

async function admin(url: string, statement: string): Promise<void> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  try {
    await client.query(statement);
  } finally {
    await client.end();
  }
}

/** Each worker of the test run has a Valkey database of its own and works on one file at a time. */
async function emptyValkey(url: string): Promise<string> {
  const own = new URL(url);
  own.pathname = `/${process.env['VITEST_POOL_ID'] ?? '1'}`;
  const client = new Redis(own.href, { maxRetriesPerRequest: 1 });
  await client.flushdb();
  client.disconnect();
  return own.href;
}
