/**
 * A crowd: 100,000 due runs in the table, two backends that sweep, and a queue that is worked off at a pace by consumers who take the entry
 * and end the run. What is counted is counted by the database: every change of `woken_at` is a telling.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { AUTOMATIONS_QUEUE, QUEUE_PREFIX } from '@onward/contracts/queues';
import { startValkey, type ValkeyServer } from '@onward/stack/valkey';
import { Queue, Worker } from 'bullmq';
import { Redis } from 'ioredis';
import { afterAll, afterEach, beforeAll, beforeEach, expect, test, vi } from 'vitest';
import type { Backend } from '../../src/create-backend.js';
import { change, rows, transact } from '../../src/database/sql.js';
import { READ_TOLD } from '../../src/sweeper/wake-lost.js';
import { FIND_WORKFLOWS, WAKE_SHARES } from '../../src/sweeper/wake-runs.js';
import { type BackendForTest, backendForTest } from '../backend-for-test.js';
import { line, publish, startRun, tag } from '../runtime/hand-worker.js';
import { anotherBackend, insertRuns } from './sweeper-bench.js';

const CROWD = 100_000;
/** As many due runs of one workflow as the queue takes from a backend. */
const SHARE = 1_000;
const folder = mkdtempSync(join(tmpdir(), 'onward-backlog-'));
let valkey: ValkeyServer;
let onward: BackendForTest;
let other: Backend;
let queue: Queue;
let admin: Redis;
let workflowId: string;
const ends: (() => Promise<unknown>)[] = [];

beforeAll(async () => {
  valkey = await startValkey({ dataDir: join(folder, 'valkey') });
  const pace = { AUTOMATIONS_SWEEP_INTERVAL_MS: '1000', AUTOMATIONS_LEASE_MS: '60000' };
  onward = await backendForTest({ ...pace, VALKEY_URL: valkey.url });
  other = await anotherBackend(onward);
  queue = new Queue(AUTOMATIONS_QUEUE, { connection: { url: valkey.url }, prefix: QUEUE_PREFIX });
  admin = new Redis(valkey.url);
  workflowId = await publish(onward, line(tag('a')));
  await rows(
    onward.source,
    `CREATE TABLE tellings (run_id uuid NOT NULL);
     CREATE FUNCTION note_telling() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO tellings VALUES (NEW.id); RETURN NULL; END $$;
     CREATE TRIGGER note_telling AFTER UPDATE ON runs FOR EACH ROW
       WHEN (NEW.woken_at IS NOT NULL AND NEW.woken_at IS DISTINCT FROM OLD.woken_at) EXECUTE FUNCTION note_telling()`,
  );
}, 60_000);
afterAll(async () => {
  await queue?.close();
  admin?.disconnect();
  await other?.close();
  await onward?.close();
  await valkey?.stop();
  rmSync(folder, { recursive: true, force: true });
});
beforeEach(async () => {
  await rows(onward.source, 'TRUNCATE tellings');
  await admin.flushall();
});
afterEach(async () => {
  for (const end of ends.splice(0)) await end();
  await rows(onward.source, 'TRUNCATE runs, run_contexts, attempts, outbound_requests');
});

const depth = async () => Object.values(await queue.getJobCounts('wait', 'prioritized', 'delayed')).reduce((all, one) => all + one, 0);
const tellings = async () =>
  (await rows<{ runs: number; times: number }>(onward.source, 'SELECT count(DISTINCT run_id)::int AS runs, count(*)::int AS times FROM tellings'))[0];

async function layOut(count: number): Promise<void> {
  for (let done = 0; done < count; done += 10_000) await insertRuns(onward, workflowId, 10_000, { due: `onward_now() - (${done} + nth) * interval '1 ms'` });
}

/**
 * Takes entries off the queue at a pace and ends their runs, as workers do whose runs are short: a run is no longer due before its entry is gone.
 * Answers how many were ended so far, and which runs were taken, in order.
 */
function consume({ perSecond }: { perSecond: number }): { ended: () => number; taken: readonly string[] } {
  const CONCURRENCY = 1_000;
  const all: string[] = [];
  let taken: { runId: string; isEnded: () => void }[] = [];
  let ended = 0;
  let ending: Promise<unknown> = Promise.resolve();
  const end = async () => {
    const batch = taken;
    taken = [];
    if (batch.length === 0) return;
    ended += await change(onward.source, `UPDATE runs SET state = 'cancelled', due_at = NULL, ended_at = now() WHERE id = ANY ($1)`, [
      batch.map(({ runId }) => runId),
    ]);
    for (const { isEnded } of batch) isEnded();
  };
  const timer = setInterval(() => {
    ending = ending.then(end);
  }, 100);
  const worker = new Worker<{ runId: string }>(
    AUTOMATIONS_QUEUE,
    async ({ data }) => {
      all.push(data.runId);
      const whenEnded = new Promise<void>((resolve) => taken.push({ runId: data.runId, isEnded: resolve }));
      await Promise.all([whenEnded, pause((1_000 * CONCURRENCY) / perSecond)]);
    },
    { connection: { url: valkey.url }, prefix: QUEUE_PREFIX, concurrency: CONCURRENCY, removeOnComplete: { count: 0 } },
  );
  worker.on('error', () => undefined);
  ends.push(async () => {
    await worker.close();
    clearInterval(timer);
    await ending;
  });
  return { ended: () => ended, taken: all };
}

/** Looks at the queue until `isOver`; answers the most entries that ever stood there. */
async function watch(isOver: () => boolean): Promise<number> {
  let most = 0;
  while (!isOver()) {
    most = Math.max(most, await depth());
    await pause(100);
  }
  return most;
}

test('100,000 due runs are told to the queue once each, never more than it holds well, and found by index', async () => {
  await layOut(CROWD);
  const plans = await explainAll();
  const beganAt = performance.now();
  const { ended } = consume({ perSecond: 4_000 });
  const most = await watch(() => ended() >= CROWD);
  console.log({ most, seconds: (performance.now() - beganAt) / 1_000, ...(await tellings()), plans });
  const { runs, times = 0 } = (await tellings()) ?? {};
  expect(runs).toBe(CROWD);
  // A machine so busy that a batch is over 4 s on its way to the queue has that batch told again.
  expect(times).toBeLessThanOrEqual(CROWD * 1.03);
  expect(most).toBeLessThanOrEqual(4_000);
}, 600_000);

test('a crowd that Valkey forgot is told anew where it had been told, and nothing else is told twice', async () => {
  const SMALL = 20_000;
  await layOut(SMALL);
  await vi.waitFor(async () => expect(await depth()).toBeGreaterThanOrEqual(SHARE), { timeout: 30_000 });
  await admin.flushall();
  const isComplete = async () => {
    const told = await rows<{ id: string }>(onward.source, 'SELECT claim_id AS id FROM runs WHERE woken_at IS NOT NULL AND due_at IS NOT NULL');
    const entries = new Set((await queue.getJobs(['wait', 'prioritized'])).map(({ id }) => id));
    return told.length >= SHARE && told.every(({ id }) => entries.has(id));
  };
  await expect.poll(isComplete, { timeout: 60_000, interval: 500 }).toBe(true);
  const { ended } = consume({ perSecond: 4_000 });
  await watch(() => ended() >= SMALL);
  const { runs = 0, times = 0 } = (await tellings()) ?? {};
  expect(runs).toBe(SMALL);
  // Twice only what stood on the queue when it was wiped.
  expect(times - runs).toBeGreaterThanOrEqual(SHARE);
  expect(times - runs).toBeLessThanOrEqual(4_000);
}, 240_000);

test('a crowd keeps nobody waiting: a lost wake-up comes again while it stands, and a run of another workflow is handed out at the next turn', async () => {
  await layOut(20_000);
  await vi.waitFor(async () => expect(await depth()).toBeGreaterThanOrEqual(SHARE), { timeout: 30_000 });
  const [job] = await queue.getJobs(['prioritized'], 500, 500);
  await job?.remove();
  const lostAt = performance.now();
  await expect.poll(async () => (await queue.getJob(job?.id ?? ''))?.id, { timeout: 60_000, interval: 100 }).toBe(job?.id);
  console.log({ backAfterMs: performance.now() - lostAt });
  expect(await depth()).toBeGreaterThanOrEqual(SHARE);

  const { runId } = await startRun(onward, await publish(onward, line(tag('b'))));
  const { taken, ended } = consume({ perSecond: 4_000 });
  await expect.poll(ended, { timeout: 120_000, interval: 100 }).toBe(20_001);
  console.log({ takenBefore: taken.indexOf(runId) });
  // A look at the queue is up to a second old, so that some of the crowd come in the same turn.
  expect(taken.indexOf(runId)).toBeLessThan(SHARE / 2);
}, 240_000);

/** How Postgres finds what the sweeper asks for, with the crowd in the table: the index and the time of each statement. */
async function explainAll(): Promise<string[]> {
  const small = await publish(onward, line(tag('b')));
  await rows(onward.source, 'ANALYZE runs');
  const statements: [string, unknown[]][] = [
    [FIND_WORKFLOWS, [30_000]],
    [WAKE_SHARES, [[workflowId, small], 1_000, 30_000]],
    [READ_TOLD, [4_000, '-infinity', '00000000-0000-0000-0000-000000000000', 2_000]],
  ];
  const found: string[] = [];
  for (const [statement, parameters] of statements) {
    const plan = await transact(onward.source, async (tx) => {
      const lines = await rows<{ 'QUERY PLAN': string }>(tx, `EXPLAIN (ANALYZE, TIMING OFF) ${statement}`, parameters);
      await rows(tx, 'ROLLBACK; BEGIN');
      return lines.map((row) => row['QUERY PLAN']).join('\n');
    });
    found.push(`${[...plan.matchAll(/(?:using|on) (runs_(?!pk)\w+)/g)].map(([, name]) => name).join(' ')}, ${/Execution Time: (\S+ ms)/.exec(plan)?.[1]}`);
  }
  expect(found.map((one) => one.split(',')[0])).toEqual(['runs_unwoken', 'runs_unwoken', 'runs_woken']);
  return found;
}
