/**
 * A backend whose pool for work is exhausted: every connection stands in a transaction that waits for a lock. What a worker needs to keep
 * its runs, and whoever watches the process, must not stand in that line.
 */
import { callFrame } from '@onward/wire/call-frame';
import pg from 'pg';
import type { DataSource } from 'typeorm';
import { afterAll, afterEach, beforeAll, beforeEach, expect, test, vi } from 'vitest';
import type { Backend } from '../../src/create-backend.js';
import { VITAL_SOURCE } from '../../src/database/data-source.js';
import { type BackendForTest, backendForTest } from '../backend-for-test.js';
import { newId } from '../../src/database/new-id.js';
import { anotherBackend } from '../sweeper/sweeper-bench.js';
import { HandWorker, line, publish, startRun, tag } from './hand-worker.js';

const POOL = 3;
let onward: BackendForTest;
let sweeping: Backend;
let worker: HandWorker;
let workflowId: string;
let blocker: pg.Client;
beforeAll(async () => {
  onward = await backendForTest({ DATABASE_POOL_SIZE: String(POOL), AUTOMATIONS_LEASE_MS: '2000', AUTOMATIONS_SWEEP_INTERVAL_MS: '1000000' });
  // A sweeper that is not in the same trouble takes back every lease that is not renewed.
  sweeping = await anotherBackend(onward, { databasePoolSize: 10, sweepIntervalMs: 200 });
  worker = new HandWorker(onward);
  workflowId = await publish(onward, line(tag('a')));
});
afterAll(async () => {
  worker?.close();
  await sweeping?.close();
  await onward?.close();
});
beforeEach(async () => {
  blocker = new pg.Client({ connectionString: onward.databaseUrl });
  await blocker.connect();
});
afterEach(() => blocker.end());

/** Fills the pool: `POOL` frames that each wait for a locked run, for as long as the locks are held. Answers what ends it. */
async function exhaust(): Promise<() => Promise<void>> {
  const runs = await Promise.all(Array.from({ length: POOL }, () => startRun(onward, workflowId)));
  await blocker.query('BEGIN');
  await blocker.query('SELECT 1 FROM runs WHERE id = ANY ($1) FOR UPDATE', [runs.map(({ runId }) => runId)]);
  const calls = runs.map(async ({ runId }) => worker.call('prepare', { ...(await worker.wakeUp(runId)), callId: 1 }));
  const all = Promise.allSettled(calls);
  await vi.waitFor(async () => expect(await waiting()).toBe(POOL), { timeout: 20_000 });
  return async () => {
    await blocker.query('ROLLBACK');
    await all;
  };
}

const waiting = async () => {
  const { rows } = await blocker.query<{ count: string }>(
    `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'onward-backend' AND wait_event_type = 'Lock'`,
  );
  return Number(rows[0]?.count);
};

test('renewals are answered and no lease lapses while every connection for work is held for longer than a lease', async () => {
  const { runId } = await startRun(onward, workflowId);
  const { at } = await worker.begin(runId);
  const renew = { runId, claimId: at.claimId, epoch: at.epoch, renew: true } as const;
  // The sweeper's backend has its own first lease behind it and takes back what is not renewed.
  const lapsing = await startRun(onward, workflowId);
  await worker.begin(lapsing.runId);
  const beat = setInterval(() => void worker.frame(['prepare', renew]).catch(() => undefined), 500);
  try {
    await vi.waitFor(async () => expect((await worker.run(lapsing.runId)).state).toBe('pending'), { timeout: 30_000 });
  } finally {
    clearInterval(beat);
  }
  const release = await exhaust();
  try {
    const until = performance.now() + 2 * onward.settings.leaseMs;
    let renewals = 0;
    while (performance.now() < until) {
      const answer = await callFrame(worker.client, {
        v: 1,
        worker: {
          workerId: newId(),
          inFlight: 1,
          targets: [{ origin: 'https://a.example.test', breaker: 'open', breakerNo: 0, probesInMs: 1_000, sending: 0, queued: 0 }],
        },
        runs: [{ items: [{ pattern: 'automation.runtime.run.prepare', data: renew }] }],
      });
      // What the worker says of itself is kept too: who could not be counted would be missing here.
      expect(answer).toMatchObject({ runs: [{ replies: [{ reply: { kind: 'renewed', leaseMs: 2_000 } }] }], workers: expect.any(Number) });
      expect(await worker.call('prepare', renew)).toEqual({ kind: 'renewed', leaseMs: 2_000 });
      renewals += 1;
      await new Promise((resolve) => setTimeout(resolve, 400));
    }
    expect(renewals).toBeGreaterThan(3);
    // The pool was full all the while, else this would show nothing.
    expect(await waiting()).toBeGreaterThan(0);
  } finally {
    await release();
  }
  expect(await worker.run(runId)).toMatchObject({ state: 'running', epoch: at.epoch, claimId: at.claimId, takeovers: 0 });
}, 120_000);

test('readiness is answered meanwhile, and says that Postgres is there', async () => {
  const release = await exhaust();
  try {
    const ready = await onward.api<{ postgres: string }>('GET', '//health/ready', undefined, { key: null });
    expect(ready).toMatchObject({ status: 200, body: { postgres: 'reachable' } });
    expect(await waiting()).toBe(POOL);
  } finally {
    await release();
  }
}, 60_000);

test('readiness says no within its bound when Postgres accepts connections and answers nothing', async () => {
  // Both small connections stand in a statement that goes on; whoever asks then is told that there was no answer.
  const slow = onward.backend.app.get<DataSource>(VITAL_SOURCE);
  const held = Promise.allSettled([1, 2].map(() => slow.query('SELECT pg_sleep(2.8)')));
  await vi.waitFor(async () => {
    const { rows } = await blocker.query(`SELECT 1 FROM pg_stat_activity WHERE application_name = 'onward-backend-vital' AND wait_event = 'PgSleep'`);
    expect(rows).toHaveLength(2);
  });
  expect(await onward.api('GET', '//health/ready', undefined, { key: null })).toMatchObject({ status: 503, body: { postgres: 'no answer within 2000 ms' } });
  await held;
}, 60_000);
