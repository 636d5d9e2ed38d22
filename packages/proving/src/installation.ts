/**
 * A whole Onward of real processes for one test: a database of its own, a Valkey, a mail sink and a webhook sink, and backend, workers and
 * gateway as their built `main.js`, each of which can be killed and comes back.
 *
 * Leases are short (6 s) and waits may be, so that what takes minutes in production takes seconds here. Only pids started here are signalled.
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
import { type Supervised, supervise } from '@onward/stack/supervisor';
import { startWebhookSink, type WebhookSink } from '@onward/stack/webhook-sink';
import pg from 'pg';
import { type Api, createApi } from './api.js';

export const LEASE_MS = 6_000;

export type InstallationPlan = {
  postgresUrl: string;
  valkeyUrl: string;
  workers?: number;
  /** Further settings of all processes. */
  env?: Readonly<Record<string, string>>;
  /** Fail points by process. */
  failPoints?: Readonly<Record<string, string>>;
  /** Fail points that a process has until it dies the first time: one counts anew in every life, so a kill would come back with each. */
  failPointsOfFirstLife?: Readonly<Record<string, string>>;
};

export type Installation = {
  api: Api;
  mail: MailSink;
  target: WebhookSink;
  /** By name: `backend`, `worker-1`, …, `gateway`. */
  processes: Readonly<Record<string, Supervised>>;
  /** Every line the processes printed. */
  lines: readonly string[];
  query<Row extends pg.QueryResultRow>(sql: string, parameters?: unknown[]): Promise<Row[]>;
  /** Resolves when `isSo` holds; throws with `what` after `withinMs`. */
  until(what: string, isSo: () => Promise<boolean>, withinMs?: number): Promise<void>;
  close(): Promise<void>;
};

const resolve = createRequire(import.meta.url).resolve;

export async function install(plan: InstallationPlan): Promise<Installation> {
  const name = `proof_${randomUUID().replaceAll('-', '')}`;
  const databaseUrl = await ensureDatabase(plan.postgresUrl, name);
  const folder = mkdtempSync(join(tmpdir(), 'onward-proof-'));
  const [mail, target] = await Promise.all([startMailSink(), startWebhookSink()]);
  const [port, rpcPort] = [await freePort(), await freePort()];
  const key = `onw_${randomBytes(32).toString('base64url')}`;
  const lines: string[] = [];
  const env: Record<string, string> = {
    PATH: '/usr/bin:/bin',
    NODE_ENV: 'test',
    DATABASE_URL: databaseUrl,
    VALKEY_URL: plan.valkeyUrl,
    SMTP_URL: mail.smtpUrl,
    MAIL_FROM: 'Onward <onward@example.test>',
    PORT: String(port),
    BACKEND_MICROSERVICE_PORT: String(rpcPort),
    BACKEND_MICROSERVICE_TARGET_PORT: String(rpcPort),
    BACKEND_MICROSERVICE_SECRET: randomBytes(32).toString('base64url'),
    ONWARD_SECRET_KEY: randomBytes(32).toString('base64url'),
    AUTOMATIONS_LEASE_MS: String(LEASE_MS),
    AUTOMATIONS_SWEEP_INTERVAL_MS: '1000',
    AUTOMATIONS_MINIMUM_WAIT_MS: '0',
    EGRESS_ALLOW: `127.0.0.1:${target.port}`,
    ONWARD_TEST_CLOCK: '1',
    ONWARD_FIRST_KEY_FILE: join(folder, 'key'),
    ...plan.env,
  };
  const processes: Record<string, Supervised> = {};
  const start = async (process: string, main: string): Promise<void> => {
    const lasting = plan.failPoints?.[process] ?? '';
    const first = plan.failPointsOfFirstLife?.[process];
    // The supervisor reads it at every start.
    const own = { ...env, ONWARD_FAIL_POINTS: first ?? lasting };
    processes[process] = await supervise({
      name: process,
      args: ['--enable-source-maps', main],
      env: own,
      onStart: () => {
        own.ONWARD_FAIL_POINTS = lasting;
      },
      cwd: folder,
      log: (line) => lines.push(`${process}: ${line}`),
      runDir: join(folder, 'run'),
    });
  };
  const pool = new pg.Pool({ connectionString: databaseUrl, max: 2 });
  pool.on('error', () => undefined);
  const query = async <Row extends pg.QueryResultRow>(sql: string, parameters: unknown[] = []) => (await pool.query<Row>(sql, parameters)).rows;
  const api = createApi(`http://127.0.0.1:${port}`, key);

  await start('backend', resolve('@onward/backend/main'));
  await until('the backend is ready', async () => (await api.ready()) === 200, 60_000);
  await makeKey(query, key);
  for (let worker = 1; worker <= (plan.workers ?? 1); worker += 1) await start(`worker-${worker}`, resolve('@onward/automation-worker/main'));
  await start('gateway', resolve('@onward/mail-gateway/main'));

  return {
    api,
    mail,
    target,
    processes,
    lines,
    query,
    until,
    async close() {
      const { backend, ...behind } = processes;
      await Promise.all(Object.values(behind).map((one) => one.stop()));
      await backend?.stop();
      await pool.end();
      await Promise.all([mail.stop(), target.stop()]);
      await dropDatabase(plan.postgresUrl, name);
      rmSync(folder, { recursive: true, force: true });
    },
  };
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
