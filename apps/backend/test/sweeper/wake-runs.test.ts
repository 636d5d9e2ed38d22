import { Redis } from 'ioredis';
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import { outboxOf } from '../../src/database/outbox.js';
import { rows, transact } from '../../src/database/sql.js';
import { WAKE_BATCH, wakeRuns } from '../../src/sweeper/wake-runs.js';
import { type BackendForTest, backendForTest } from '../backend-for-test.js';
import { HandWorker, line, publish, startRun, tag, wait } from '../runtime/hand-worker.js';
import { BY_HAND, deleteRuns, duty, insertRuns, latch, queuesOf, readQueue, type RowColumns, sweeperOf } from './sweeper-bench.js';

let onward: BackendForTest;
let worker: HandWorker;
let workflowId: string;
beforeAll(async () => {
  onward = await backendForTest({ ...BY_HAND, AUTOMATIONS_LEASE_MS: '60000' });
  worker = new HandWorker(onward);
  workflowId = await publish(onward, line(tag('a')));
  await sweeperOf(onward.backend).sweepFully();
});
afterAll(async () => {
  worker?.close();
  await onward?.close();
});
beforeEach(() => deleteRuns(onward));

const ago = (seconds: number) => `clock_timestamp() - interval '${seconds} s'`;
const dueIn = (seconds: number) => `onward_now() + interval '${seconds} s'`;

test.each<[string, RowColumns, delayMs: [number, number] | null]>([
  ['due and never told of is woken', {}, [0, 0]],
  ['long due and never told of is woken', { due: dueIn(-86_400) }, [0, 0]],
  ['due in 20 s and never told of is woken with its delay', { due: dueIn(20) }, [10_000, 20_000]],
  ['due in 29 s and never told of is woken with its delay', { due: dueIn(29) }, [19_000, 29_000]],
  ['due in 45 s is left until its time is near', { due: dueIn(45) }, null],
  ['due and told of 5 s ago is woken again', { woken: ago(5) }, [0, 0]],
  ['due and told of 2 s ago is left, for the telling may be under way', { woken: ago(2) }, null],
  ['due in 20 s and told of a minute ago is left, for its delayed entry stands', { due: dueIn(20), woken: ago(60) }, null],
  ['due and held is left', { held: 'true' }, null],
  ['retrying and due is woken', { state: `'retrying'` }, [0, 0]],
  ['running is left', { state: `'running'`, due: 'NULL', leaseUntil: ago(60) }, null],
])('a run that is %s', async (_what, columns, delay) => {
  const [run] = await insertRuns(onward, workflowId, 1, columns);
  const { count, wakeUps } = await duty(onward.source, wakeRuns);
  expect(count).toBe(delay ? 1 : 0);
  expect(wakeUps).toEqual(delay ? [{ runId: run?.id, claimId: run?.claimId, delayMs: expect.any(Number) }] : []);
  if (delay) {
    expect(wakeUps[0]?.delayMs).toBeGreaterThanOrEqual(delay[0]);
    expect(wakeUps[0]?.delayMs).toBeLessThanOrEqual(delay[1]);
    // It keeps its claim, so that the queue knows the repeat for one, and is not told of again at once.
    expect((await worker.run(run?.id ?? '')).claimId).toBe(run?.claimId);
    expect((await duty(onward.source, wakeRuns)).count).toBe(0);
  }
});

test('the oldest 2,000 are woken at once, whatever the order they were written in, and then the rest', async () => {
  const runs = await insertRuns(onward, workflowId, WAKE_BATCH + 100, { due: `onward_now() - nth * interval '1 s'` });
  const first = await duty(onward.source, wakeRuns);
  expect(first.count).toBe(2_000);
  const left = await duty(onward.source, wakeRuns);
  expect(new Set(left.wakeUps.map(({ runId }) => runId))).toEqual(new Set(runs.slice(0, 100).map(({ id }) => id)));
});

test('two sweepers at once take different runs, and neither waits for the other', async () => {
  const runs = await insertRuns(onward, workflowId, WAKE_BATCH + 300);
  const [taken, letCommit] = [latch(), latch()];
  const slow = transact(onward.source, async (tx) => {
    await wakeRuns(tx);
    taken.open();
    await letCommit.passed;
    return outboxOf(tx).wakeUps;
  });
  await taken.passed;
  const quick = await duty(onward.source, wakeRuns);
  letCommit.open();
  const all = [...(await slow), ...quick.wakeUps].map(({ runId }) => runId);
  expect(quick.count).toBe(300);
  expect(new Set(all).size).toBe(all.length);
  expect(new Set(all)).toEqual(new Set(runs.map(({ id }) => id)));
});

test('a run due in 10 s has one delayed entry of that delay; one due in two minutes has none until it is 30 s away', async () => {
  const queue = readQueue(onward.valkeyUrl);
  try {
    const rest = async (duration: string) => {
      const { runId } = await startRun(onward, await publish(onward, line(wait('rest', duration), tag('a'))));
      await worker.call('wait', (await worker.begin(runId)).at);
      return runId;
    };
    const entriesOf = async (runId: string) => (await queue.delayed()).filter(({ data }) => (data as { runId: string }).runId === runId);

    /** Handed out when the run is due by the clock of due times, never before, and not long after. */
    const isOnTime = async (runId: string, at = 0) => {
      const [due] = await rows<{ at: number }>(
        onward.source,
        `SELECT extract(epoch FROM due_at)::float8 * 1000 - (SELECT offset_ms FROM clock_offset) AS at FROM runs WHERE id = $1`,
        [runId],
      );
      expect(at).toBeGreaterThanOrEqual(Math.floor(due?.at ?? Number.NaN) - 1);
      expect(at).toBeLessThan((due?.at ?? 0) + 2_000);
    };

    const soon = await rest('PT10S');
    await expect.poll(() => entriesOf(soon)).toHaveLength(1);
    const { claimId } = await worker.run(soon);
    const [entry] = await entriesOf(soon);
    expect(entry).toMatchObject({ id: claimId, data: { runId: soon, claimId } });
    expect(entry?.delay).toBeLessThanOrEqual(10_001);
    await isOnTime(soon, entry?.at);
    await sweeperOf(onward.backend).sweepFully();
    expect(await entriesOf(soon)).toHaveLength(1);

    const late = await rest('PT2M');
    expect((await worker.run(late)).wokenAt).toBeNull();
    await onward.clock.advance('PT1M20S');
    expect((await worker.run(late)).wokenAt).toBeNull();
    await onward.clock.advance('PT15S');
    expect((await worker.run(late)).wokenAt).not.toBeNull();
    await expect.poll(() => entriesOf(late)).toHaveLength(1);
    const [lateEntry] = await entriesOf(late);
    expect(lateEntry?.id).toBe((await worker.run(late)).claimId);
    await isOnTime(late, lateEntry?.at);
    await sweeperOf(onward.backend).sweepFully();
    expect(await entriesOf(late)).toHaveLength(1);
  } finally {
    await queue.close();
  }
});

test('while more than 2,000 entries wait the rows keep what is due; then the queue is topped up', async () => {
  const queues = queuesOf(onward.backend);
  const long = (await insertRuns(onward, workflowId, 2_100, { woken: ago(0) })).map(({ id, claimId }) => ({ runId: id, claimId, delayMs: 0 }));
  await expect.poll(() => queues.addWakeUps(long)).toBe(2_100);
  await expect.poll(() => queues.canTake(), { timeout: 5_000 }).toBe(false);
  const runs = await insertRuns(onward, workflowId, 5, { due: dueIn(-60) });
  await sweeperOf(onward.backend).sweepFully();
  expect(await Promise.all(runs.map(async ({ id }) => (await worker.run(id)).wokenAt))).toEqual([null, null, null, null, null]);
  const admin = new Redis(onward.valkeyUrl);
  await admin.flushdb();
  admin.disconnect();
  await expect.poll(() => queues.canTake(), { timeout: 5_000 }).toBe(true);
  await sweeperOf(onward.backend).sweepFully();
  for (const { id } of runs) expect((await worker.run(id)).wokenAt).not.toBeNull();
});
