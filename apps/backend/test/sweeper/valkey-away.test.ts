import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { freePort } from '@onward/stack/free-port';
import { startValkey, type ValkeyServer } from '@onward/stack/valkey';
import { Redis } from 'ioredis';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import type { Backend } from '../../src/create-backend.js';
import { change, rows } from '../../src/database/sql.js';
import { type BackendForTest, backendForTest } from '../backend-for-test.js';
import { HandWorker, line, publish, startRun, tag } from '../runtime/hand-worker.js';
import { anotherBackend, BY_HAND, deleteRuns, insertRuns, queuesOf, readQueue, sweeperOf } from './sweeper-bench.js';

/** Nobody who calls the API waits for Valkey, whose own time-out is 1 s. */
const QUICK_MS = 900;

const folder = mkdtempSync(join(tmpdir(), 'onward-valkey-away-'));
let valkey: ValkeyServer;
let onward: BackendForTest;
let worker: HandWorker;
let workflowId: string;
beforeAll(async () => {
  valkey = await startValkey({ dataDir: join(folder, 'valkey') });
  onward = await backendForTest({ ...BY_HAND, AUTOMATIONS_LEASE_MS: '60000', VALKEY_URL: valkey.url });
  worker = new HandWorker(onward);
  workflowId = await publish(onward, line(tag('a')));
  await sweeperOf(onward.backend).sweepFully();
});
afterAll(async () => {
  worker?.close();
  await onward?.close();
  await valkey?.stop();
  rmSync(folder, { recursive: true, force: true });
});
beforeEach(() => deleteRuns(onward));

const forget = () => change(onward.source, `UPDATE runs SET woken_at = clock_timestamp() - interval '5 s' WHERE woken_at IS NOT NULL`);
const wokenAt = () => rows<{ id: string; at: string }>(onward.source, 'SELECT id, woken_at::text AS at FROM runs ORDER BY id');

async function timed<Result>(work: () => Promise<Result>): Promise<{ result: Result; ms: number }> {
  const beganAt = performance.now();
  const result = await work();
  return { result, ms: performance.now() - beganAt };
}

test('after FLUSHALL the queue is filled again, under the same claims', async () => {
  const queue = readQueue(valkey.url);
  const admin = new Redis(valkey.url);
  try {
    const runs = await insertRuns(onward, workflowId, 25);
    const expected = runs.map(({ id, claimId }) => ({ id: claimId, data: { runId: id, claimId } })).sort((a, b) => (a.id < b.id ? -1 : 1));
    const waiting = async () => (await queue.waiting()).sort((a, b) => ((a.id ?? '') < (b.id ?? '') ? -1 : 1));
    await sweeperOf(onward.backend).sweepFully();
    await expect.poll(waiting).toEqual(expected);
    await admin.flushall();
    // What the queue was told of just now is not yet looked for.
    await sweeperOf(onward.backend).sweepFully();
    expect(await waiting()).toEqual([]);
    await forget();
    await sweeperOf(onward.backend).sweepFully();
    await expect.poll(waiting).toEqual(expected);
    // While the entries stand nothing is told again, however long ago it was told.
    await forget();
    const before = await wokenAt();
    await sweeperOf(onward.backend).sweepFully();
    expect(await wokenAt()).toEqual(before);
    expect(await waiting()).toEqual(expected);
  } finally {
    await queue.close();
    admin.disconnect();
  }
});

describe('while Valkey does not answer', () => {
  beforeEach(async () => {
    valkey.kill('SIGSTOP');
    await expect.poll(() => queuesOf(onward.backend).isThere(), { timeout: 10_000 }).toBe(false);
    return () => valkey.kill('SIGCONT');
  });

  test('no row is written again and again, and the queue is filled once it is back', async () => {
    const runs = await insertRuns(onward, workflowId, 30, { woken: `clock_timestamp() - interval '5 s'` });
    const before = await wokenAt();
    for (let nth = 0; nth < 3; nth += 1) await sweeperOf(onward.backend).sweepFully();
    expect(await wokenAt()).toEqual(before);
    valkey.kill('SIGCONT');
    const queue = readQueue(valkey.url);
    try {
      const isFilled = async () => {
        await forget();
        await sweeperOf(onward.backend).sweepFully();
        const waiting = new Set((await queue.waiting()).map(({ id }) => id));
        return runs.every(({ claimId }) => waiting.has(claimId));
      };
      await expect.poll(isFilled, { timeout: 15_000 }).toBe(true);
    } finally {
      await queue.close();
    }
  });

  test('contacts, events and runs are taken in as quickly as ever', async () => {
    const answers = [
      await timed(() => onward.api('POST', '/contacts', { email: 'quick@example.test' })),
      await timed(() => onward.api('POST', '/runs', { workflowId, contacts: [{ email: 'quick@example.test' }] })),
      await timed(() => onward.api('POST', '/events', { type: 'nobody.waits', contact: { email: 'quick@example.test' }, payload: {} })),
    ];
    expect(answers.map(({ result }) => result.status)).toEqual([201, 201, 201]);
    // Nobody was told of the run, and the row says so.
    expect(await wokenAt()).toMatchObject([{ at: null }]);
    for (const { ms } of answers) expect(ms).toBeLessThan(QUICK_MS);
  });

  test('a run is moved by a worker that knows of it already', async () => {
    const { runId } = await startRun(onward, workflowId);
    const { at } = await worker.begin(runId);
    const { result, ms } = await timed(() => worker.call('advance', at));
    expect(result).toMatchObject({ state: 'succeeded' });
    expect(ms).toBeLessThan(QUICK_MS);
  });
});

describe('a backend that never found Valkey', () => {
  let lonely: Backend;
  beforeAll(async () => {
    lonely = await anotherBackend(onward, { valkeyUrl: `redis://127.0.0.1:${await freePort()}` });
  });
  afterAll(() => lonely?.close());

  const call = async (method: string, path: string, body?: unknown) => {
    const response = await fetch(`http://127.0.0.1:${lonely.port}${path}`, {
      method,
      headers: { authorization: `Bearer ${onward.apiKey}`, 'content-type': 'application/json' },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    return { status: response.status, body: (await response.json()) as Record<string, unknown> };
  };

  test('is up, says that it is degraded and takes in work', async () => {
    expect(await call('GET', '/health/ready')).toMatchObject({ status: 200, body: { status: 'degraded' } });
    const { result, ms } = await timed(() => call('POST', '/api/v1/runs', { workflowId, withoutContact: true }));
    expect(result.status).toBe(201);
    expect(ms).toBeLessThan(QUICK_MS);
  });

  test('writes no row again and again', async () => {
    await insertRuns(onward, workflowId, 10, { woken: `clock_timestamp() - interval '5 s'` });
    const before = await wokenAt();
    for (let nth = 0; nth < 3; nth += 1) await sweeperOf(lonely).sweepFully();
    expect(await wokenAt()).toEqual(before);
  });
});
