/**
 * One Onward as it is shipped: backend and workers as their built `main.js` under NODE_ENV=production and LOG_LEVEL=info, their log read from
 * a pipe, on a database of its own. Authentication is on: everything asked of it carries an API key.
 *
 * There is a mail gateway only where an SMTP server is named. Answers once it is ready; `close` ends what was started, also in the middle of the
 * start, and removes the database.
 */
import { createHash, randomBytes, randomUUID } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { dropDatabase, ensureDatabase } from '@onward/stack/ensure-database';
import { freePort } from '@onward/stack/free-port';
import { NODE_ARGUMENTS } from '@onward/stack/node-arguments';
import { type Supervised, supervise } from '@onward/stack/supervisor';
import pg from 'pg';
import { type Api, createApi } from './api.js';
import { emptyValkey } from './empty-valkey.js';
import type { Query } from './query.js';
import type { Servers } from './servers.js';
import { endLater } from './started.js';
import { until } from './until.js';

export type OnwardPlan = {
  servers: Servers;
  /** The Node that runs it. */
  node: string;
  path: string;
  /** Default 1. */
  workers?: number;
  /** The mail server of a gateway; without one there is no gateway. */
  smtpUrl?: string;
  /** Settings on top of those shipped. */
  env?: Readonly<Record<string, string>>;
};

export type Onward = {
  api: Api;
  query: Query;
  /** One transaction that is rolled back after `work`; `ask` answers how many rows there were. */
  transact(work: (ask: (sql: string, parameters?: unknown[]) => Promise<number>) => Promise<void>): Promise<void>;
  /** Where the backend listens for workers, and the secret they share. */
  rpc: { host: string; port: number; secret: string };
  backend: Supervised;
  workers: readonly Supervised[];
  /** Of the backend and the workers that live now. */
  pids(): { backend: number[]; worker: number[] };
  addWorker(): Promise<void>;
  close(): Promise<void>;
};

const resolve = createRequire(import.meta.url).resolve;
const KEPT_LINES = 50;
const WORKER_IS_READY = 'the worker takes wake-ups';
const GATEWAY_IS_READY = 'the mail gateway takes messages';
const STOP_WITHIN_MS = 35_000;
const READY = { withinMs: 60_000, everyMs: 50 };

export async function startOnward({ servers, node, path, workers: wanted = 1, smtpUrl, env: more = {} }: OnwardPlan): Promise<Onward> {
  const name = `bench_${randomUUID().replaceAll('-', '')}`;
  const databaseUrl = await ensureDatabase(servers.postgresUrl, name);
  const folder = mkdtempSync(join(tmpdir(), 'onward-bench-'));
  const [port, rpcPort] = await Promise.all([freePort(), freePort()]);
  const key = `onw_${randomBytes(32).toString('base64url')}`;
  const rpc = { host: '127.0.0.1', port: rpcPort, secret: randomBytes(32).toString('base64url') };
  const lines: string[] = [];
  const heard: string[] = [];
  const env = {
    PATH: path,
    NODE_ENV: 'production',
    LOG_LEVEL: 'info',
    DATABASE_URL: databaseUrl,
    VALKEY_URL: servers.valkeyUrl,
    PORT: String(port),
    BACKEND_MICROSERVICE_PORT: String(rpcPort),
    BACKEND_MICROSERVICE_TARGET_PORT: String(rpcPort),
    BACKEND_MICROSERVICE_SECRET: rpc.secret,
    ONWARD_SECRET_KEY: randomBytes(32).toString('base64url'),
    ONWARD_FIRST_KEY_FILE: join(folder, 'key'),
    ...(smtpUrl === undefined ? {} : { SMTP_URL: smtpUrl }),
    ...more,
  };
  const started: Promise<Supervised>[] = [];
  let isClosed = false;
  const start = (process: string, main: string): Promise<Supervised> => {
    if (isClosed) throw new Error('Interrupted');
    const starting = supervise({
      name: process,
      command: node,
      args: [...NODE_ARGUMENTS, main],
      env,
      cwd: folder,
      log: (line) => {
        lines.push(`${process}: ${line}`);
        heard.push(...[WORKER_IS_READY, GATEWAY_IS_READY].filter((sign) => line.includes(sign)));
        if (lines.length > KEPT_LINES) lines.shift();
      },
      runDir: join(folder, 'run'),
      stopWithinMs: STOP_WITHIN_MS,
      longestBackoffMs: 500,
    });
    started.push(starting);
    return starting;
  };
  const startAndHear = async (process: string, main: string, sign: string): Promise<Supervised> => {
    const count = (): number => heard.filter((one) => one === sign).length;
    const before = count();
    const starting = await start(process, main);
    await until(sign, () => Promise.resolve(count() > before), READY);
    return starting;
  };
  const pool = new pg.Pool({ connectionString: databaseUrl, max: 2 });
  pool.on('error', () => undefined);
  const query: Query = async <Row extends pg.QueryResultRow>(sql: string, parameters: unknown[] = []) => (await pool.query<Row>(sql, parameters)).rows;
  const api = createApi(`http://127.0.0.1:${port}`, key);
  const workers: Supervised[] = [];
  const addWorker = async (): Promise<void> => {
    workers.push(await startAndHear(`worker-${workers.length + 1}`, resolve('@onward/automation-worker/main'), WORKER_IS_READY));
  };
  const close = endLater(async () => {
    isClosed = true;
    // The backend, started first, ends last: the others still have to tell it where they stand.
    const [first, ...others] = (await Promise.allSettled(started)).flatMap((one) => (one.status === 'fulfilled' ? [one.value] : []));
    await Promise.all(others.map((other) => other.stop()));
    await first?.stop();
    await Promise.all([api.close(), pool.end()]);
    await dropDatabase(servers.postgresUrl, name);
    rmSync(folder, { recursive: true, force: true });
  });
  let backend: Supervised;
  try {
    await emptyValkey(servers.valkeyUrl);
    backend = await start('backend', resolve('@onward/backend/main'));
    await until('the backend is ready', () => api.isReady(), READY);
    await query('INSERT INTO api_keys (id, name, prefix, hash) VALUES (gen_random_uuid(), $1, $2, $3)', [
      'bench',
      key.slice(0, 8),
      createHash('sha256').update(key).digest(),
    ]);
    for (let nth = 1; nth <= wanted; nth += 1) await addWorker();
    if (smtpUrl !== undefined) await startAndHear('gateway', resolve('@onward/mail-gateway/main'), GATEWAY_IS_READY);
  } catch (error) {
    await close();
    throw new Error(`Onward did not start; the last it said:\n${lines.join('\n')}`, { cause: error });
  }
  const pidOf = ({ name, pid }: Supervised): number => {
    const found = pid();
    if (found === undefined) throw new Error(`${name} is not running; the last it said:\n${lines.join('\n')}`);
    return found;
  };
  const transact: Onward['transact'] = async (work) => {
    const client = await pool.connect();
    try {
      await client.query('BEGIN');
      await work(async (sql, parameters = []) => (await client.query(sql, parameters)).rowCount ?? 0);
    } finally {
      await client.query('ROLLBACK');
      client.release();
    }
  };
  return { api, query, transact, rpc, backend, workers, pids: () => ({ backend: [pidOf(backend)], worker: workers.map(pidOf) }), addWorker, close };
}
