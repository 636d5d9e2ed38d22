/**
 * A whole Onward of real processes for one test: a database of its own, a Valkey database that it empties, a mail sink and a webhook sink, and backend, workers and
 * gateway as their built `main.js`, each of which can be killed and comes back.
 *
 * Leases are short (6 s), a failing target is tried again after a second, and waits may be short, so that what takes minutes in production takes
 * seconds here. Only pids started here are signalled.
 */
import { randomBytes, randomUUID } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createRequire } from 'node:module';
import { setTimeout as pause } from 'node:timers/promises';
import { dropDatabase, ensureDatabase } from '@onward/stack/ensure-database';
import { freePort } from '@onward/stack/free-port';
import { type MailSink, startMailSink } from '@onward/stack/mail-sink';
import { NODE_ARGUMENTS } from '@onward/stack/node-arguments';
import { type Supervised, supervise } from '@onward/stack/supervisor';
import { startWebhookSink, type WebhookSink } from '@onward/stack/webhook-sink';
import { Redis } from 'ioredis';
import pg from 'pg';
import { type Api, createApi } from './api.js';
import { keepCommitLog } from './commit-log.js';
import type { Query } from './query.js';

export const LEASE_MS = 6_000;
/** More than any process gives itself to end: the gateway 30 s, the backend 25 s, the worker 20 s. */
const STOP_WITHIN_MS = 35_000;
/** Short, so that a process that is killed again and again is there to be killed. */
const LONGEST_BACKOFF_MS = 500;

export type InstallationPlan = {
  postgresUrl: string;
  valkeyUrl: string;
  /** Default 1. The workers, and then the gateway, are given to the backends in turn. */
  backends?: number;
  /** Default 1. */
  workers?: number;
  /** Further settings of all processes; they go before what an installation chooses itself, its ports too. */
  env?: Readonly<Record<string, string>>;
  /** Fail points by process, in each of its lives; one counts anew in every life, so a kill comes back with each that has it. */
  failPoints?: Readonly<Record<string, (life: number) => string>>;
};

/** For a process that has the fail points until it has died `lives` times. */
export function inFirstLives(lives: number, failPoints: string): (life: number) => string {
  return (life) => (life <= lives ? failPoints : '');
}

export type Installation = {
  /** Of the first backend. */
  api: Api;
  /** Of each backend. */
  apis: readonly Api[];
  mail: MailSink;
  target: WebhookSink;
  /** By name: `backend` or, of several, `backend-1`, …; `worker-1`, …; `gateway`. */
  processes: Readonly<Record<string, Supervised>>;
  /** The process of this name; throws when there is none. */
  process(name: string): Supervised;
  /** Starts one worker more and answers its name. */
  addWorker(): Promise<string>;
  /** Every line the processes printed. */
  lines: readonly string[];
  query: Query;
  /** Resolves when `isSo` holds; throws with `what` after `withinMs`. */
  until(what: string, isSo: () => Promise<boolean>, withinMs?: number): Promise<void>;
  close(): Promise<void>;
};

const resolve = createRequire(import.meta.url).resolve;

export async function install(plan: InstallationPlan): Promise<Installation> {
  const name = `proof_${randomUUID().replaceAll('-', '')}`;
  const databaseUrl = await ensureDatabase(plan.postgresUrl, name);
  await emptyValkey(plan.valkeyUrl);
  const folder = mkdtempSync(join(tmpdir(), 'onward-proof-'));
  const [mail, target] = await Promise.all([startMailSink(), startWebhookSink()]);
  const backendNames = plan.backends === undefined || plan.backends === 1 ? ['backend'] : numbered('backend', plan.backends);
  const ports = await Promise.all(backendNames.map(async () => ({ http: await freePort(), rpc: await freePort() })));
  const key = `onw_${randomBytes(32).toString('base64url')}`;
  const lines: string[] = [];
  const env: Record<string, string> = {
    PATH: '/usr/bin:/bin',
    NODE_ENV: 'test',
    DATABASE_URL: databaseUrl,
    VALKEY_URL: plan.valkeyUrl,
    SMTP_URL: mail.smtpUrl,
    MAIL_FROM: 'Onward <onward@example.test>',
    BACKEND_MICROSERVICE_SECRET: randomBytes(32).toString('base64url'),
    ONWARD_SECRET_KEY: randomBytes(32).toString('base64url'),
    AUTOMATIONS_LEASE_MS: String(LEASE_MS),
    AUTOMATIONS_SWEEP_INTERVAL_MS: '1000',
    AUTOMATIONS_MINIMUM_WAIT_MS: '0',
    AUTOMATIONS_BREAKER_RESET_MS: '1000',
    EGRESS_ALLOW: `127.0.0.1:${target.port}`,
    ONWARD_TEST_CLOCK: '1',
    ONWARD_FIRST_KEY_FILE: join(folder, 'key'),
    ...plan.env,
  };
  const processes: Record<string, Supervised> = {};
  const start = async (process: string, main: string, more: Readonly<Record<string, string>>): Promise<void> => {
    const failPoints = plan.failPoints?.[process] ?? (() => '');
    let life = 1;
    // The supervisor reads it at every start.
    const own = { ...env, ...more, ...plan.env, ONWARD_FAIL_POINTS: failPoints(life) };
    processes[process] = await supervise({
      name: process,
      args: [...NODE_ARGUMENTS, main],
      env: own,
      onStart: () => {
        life += 1;
        own.ONWARD_FAIL_POINTS = failPoints(life);
      },
      cwd: folder,
      log: (line) => lines.push(`${process}: ${line}`),
      runDir: join(folder, 'run'),
      stopWithinMs: STOP_WITHIN_MS,
      longestBackoffMs: LONGEST_BACKOFF_MS,
    });
  };
  const pool = new pg.Pool({ connectionString: databaseUrl, max: 2 });
  pool.on('error', () => undefined);
  const query = async <Row extends pg.QueryResultRow>(sql: string, parameters: unknown[] = []) => (await pool.query<Row>(sql, parameters)).rows;
  const apis = ports.map(({ http }) => createApi(`http://127.0.0.1:${http}`, key));
  const [api] = apis;
  if (!api) throw new Error('An installation has a backend');

  const startBackend = (nth: number): Promise<void> => {
    const port = ports[nth];
    return start(backendNames[nth] ?? '', resolve('@onward/backend/main'), { PORT: String(port?.http), BACKEND_MICROSERVICE_PORT: String(port?.rpc) });
  };
  /** The backend that the nth client process talks to. */
  const talkingTo = (nth: number) => ({ BACKEND_MICROSERVICE_TARGET_PORT: String(ports[nth % ports.length]?.rpc) });
  let workers = 0;
  const addWorker = async (): Promise<string> => {
    workers += 1;
    await start(`worker-${workers}`, resolve('@onward/automation-worker/main'), talkingTo(workers - 1));
    return `worker-${workers}`;
  };
  // The first one brings the schema; every other finds it there.
  await startBackend(0);
  await until('the backend is ready', async () => (await api.ready()) === 200, 60_000);
  await makeKey(query, key);
  await keepCommitLog(query);
  for (let nth = 1; nth < ports.length; nth += 1) await startBackend(nth);
  for (let nth = 1; nth <= (plan.workers ?? 1); nth += 1) await addWorker();
  await start('gateway', resolve('@onward/mail-gateway/main'), talkingTo(workers));
  for (const [nth, one] of apis.entries()) await until(`${backendNames[nth]} is ready`, async () => (await one.ready()) === 200, 60_000);

  return {
    api,
    apis,
    mail,
    target,
    processes,
    process: (wanted) => {
      const found = processes[wanted];
      if (!found) throw new Error(`There is no process ${wanted}`);
      return found;
    },
    addWorker,
    lines,
    query,
    until,
    async close() {
      const isBackend = (one: Supervised) => backendNames.includes(one.name);
      const all = Object.values(processes);
      await Promise.all(all.filter((one) => !isBackend(one)).map((one) => one.stop()));
      await Promise.all(all.filter(isBackend).map((one) => one.stop()));
      await pool.end();
      await Promise.all([mail.stop(), target.stop()]);
      await dropDatabase(plan.postgresUrl, name);
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

/** What an installation before this one left there names runs that this one does not know, and would bring a process to its fail point before its time. */
async function emptyValkey(url: string): Promise<void> {
  const valkey = new Redis(url);
  try {
    await valkey.flushdb();
  } finally {
    valkey.disconnect();
  }
}

function numbered(name: string, count: number): string[] {
  return Array.from({ length: count }, (_, index) => `${name}-${index + 1}`);
}

async function makeKey(query: Installation['query'], key: string): Promise<void> {
  const { createHash } = await import('node:crypto');
  await query('INSERT INTO api_keys (id, name, prefix, hash) VALUES (gen_random_uuid(), $1, $2, $3)', [
    'proof',
    key.slice(0, 8),
    createHash('sha256').update(key).digest(),
  ]);
}

/** Looks every 50 ms: what is waited for happens in other processes, which cannot tell us. */
async function until(what: string, isSo: () => Promise<boolean>, withinMs = 30_000): Promise<void> {
  const deadline = performance.now() + withinMs;
  while (!(await isSo().catch(() => false))) {
    if (performance.now() > deadline) throw new Error(`Not within ${withinMs} ms: ${what}`);
    await pause(50);
  }
}
