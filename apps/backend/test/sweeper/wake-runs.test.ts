import { Redis } from 'ioredis';
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import { transactAndTell } from '../../src/database/outbox.js';
import { rows, type Tx } from '../../src/database/sql.js';
import { wakeLost } from '../../src/sweeper/wake-lost.js';
import { wakeRuns } from '../../src/sweeper/wake-runs.js';
import { type BackendForTest, backendForTest } from '../backend-for-test.js';
import { HandWorker, line, publish, startRun, tag, wait } from '../runtime/hand-worker.js';
import { BY_HAND, deleteRuns, duty, insertRuns, latch, listen, queuesOf, readQueue, ROOM, type RowColumns, sweeperOf } from './sweeper-bench.js';

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

const wake = (tx: Tx) => wakeRuns(tx, ROOM);
const ago = (seconds: number) => `clock_timestamp() - interval '${seconds} s'`;
const dueIn = (seconds: number) => `onward_now() + interval '${seconds} s'`;

test.each<[string, RowColumns, delayMs: [number, number] | null]>([
  ['due and never told of is woken', {}, [0, 0]],
  ['long due and never told of is woken', { due: dueIn(-86_400) }, [0, 0]],
  ['due in 20 s and never told of is woken with its delay', { due: dueIn(20) }, [10_000, 20_000]],
  ['due in 29 s and never told of is woken with its delay', { due: dueIn(29) }, [19_000, 29_000]],
  ['due in 45 s is left until its time is near', { due: dueIn(45) }, null],
  ['due and told of a minute ago is left to the look for lost wake-ups', { woken: ago(60) }, null],
  ['due and held is left', { held: 'true' }, null],
  ['retrying and due is woken', { state: `'retrying'` }, [0, 0]],
  ['running is left', { state: `'running'`, due: 'NULL', leaseUntil: ago(60) }, null],
])('a run that is %s', async (_what, columns, delay) => {
  const [run] = await insertRuns(onward, workflowId, 1, columns);
  const { count, wakeUps } = await duty(onward.source, wake);
  expect(count).toBe(delay ? 1 : 0);
  expect(wakeUps).toEqual(delay ? [{ runId: run?.id, claimId: run?.claimId, workflowId, delayMs: expect.any(Number) }] : []);
  if (delay) {
    expect(wakeUps[0]?.delayMs).toBeGreaterThanOrEqual(delay[0]);
    expect(wakeUps[0]?.delayMs).toBeLessThanOrEqual(delay[1]);
    // It keeps its claim, so that the queue knows the repeat for one, and is not told of again at once.
    expect((await worker.run(run?.id ?? '')).claimId).toBe(run?.claimId);
    expect((await duty(onward.source, wake)).count).toBe(0);
  }
});

test.each<[string, RowColumns, isWokenAgain: boolean, hasEntry?: 'has an entry']>([
  ['due and told of 5 s ago is woken again', { woken: ago(5) }, true],
  ['due, told of a minute ago and still on the queue is left: it waits its turn', { woken: ago(60) }, false, 'has an entry'],
  ['due and told of 2 s ago is left, for the telling may be under way', { woken: ago(2) }, false],
  ['due in 20 s and told of a minute ago is left, for its delayed entry stands', { due: dueIn(20), woken: ago(60) }, false],
  ['due and never told of is not taken for lost', {}, false],
  ['due, told of a minute ago and held is left', { woken: ago(60), held: 'true' }, false],
  ['running is left', { state: `'running'`, due: 'NULL', leaseUntil: ago(60), woken: ago(60) }, false],
])('of a run that no worker has taken up, one that is %s', async (_what, columns, isWokenAgain, hasEntry) => {
  const [run] = await insertRuns(onward, workflowId, 1, columns);
  const { teller, wakeUps, standing } = listen();
  if (hasEntry) standing.add(run?.claimId ?? '');
  expect(await wakeLost(onward.source, teller)).toBe(isWokenAgain ? 1 : 0);
  expect(wakeUps).toEqual(isWokenAgain ? [{ runId: run?.id, claimId: run?.claimId, workflowId, delayMs: 0 }] : []);
  expect(await wakeLost(onward.source, teller)).toBe(0);
});

test('a lost wake-up is found behind thousands that only wait their turn, and two who look at once find it once', async () => {
  const { teller, wakeUps, standing } = listen();
  for (const { claimId } of await insertRuns(onward, workflowId, 4_500, { woken: ago(120) })) standing.add(claimId);
  const lost = await insertRuns(onward, workflowId, 3, { woken: ago(6) });
  const counts = await Promise.all([wakeLost(onward.source, teller), wakeLost(onward.source, teller)]);
  expect(counts[0] + counts[1]).toBe(3);
  expect(new Set(wakeUps.map(({ runId }) => runId))).toEqual(new Set(lost.map(({ id }) => id)));
});

test('nothing is taken for lost while the queue cannot say what it holds', async () => {
  await insertRuns(onward, workflowId, 2, { woken: ago(60) });
  const { teller, wakeUps } = listen();
  expect(await wakeLost(onward.source, { ...teller, standing: async () => null })).toBe(0);
  expect(wakeUps).toEqual([]);
});

test('workflows take turns: the crowd of one leaves the few runs of another their places, and each gives its oldest first', async () => {
  const [few, other] = [await publish(onward, line(tag('a'))), await publish(onward, line(tag('a')))];
  const crowd = await insertRuns(onward, workflowId, 10_000, { due: `onward_now() - interval '1 h' + nth * interval '1 ms'` });
  const late = await insertRuns(onward, few, 5, { due: `onward_now() - interval '1 s' + nth * interval '1 ms'` });
  const later = await insertRuns(onward, other, 900, { due: `onward_now() - interval '1 s' + nth * interval '1 ms'` });
  const { count, wakeUps } = await duty(onward.source, wake);
  expect(count).toBe(2_000);
  const woken = wakeUps.map(({ runId }) => runId);
  const ids = (runs: { id: string }[]) => runs.map(({ id }) => id);
  const of = (runs: { id: string }[]) => {
    const all = new Set(ids(runs));
    return woken.filter((id) => all.has(id));
  };
  expect(of(late)).toEqual(ids(late));
  // What the few do not need the others share; a second round gives the rest to whoever has more.
  expect(of(later).slice(0, 667)).toEqual(ids(later).slice(0, 667));
  expect(of(crowd).slice(0, 667)).toEqual(ids(crowd).slice(0, 667));
  expect(of(crowd)).toHaveLength(2_000 - 5 - of(later).length);
  // The first in the queue are the oldest of each.
  expect(new Set(woken.slice(0, 3))).toEqual(new Set([crowd[0]?.id, late[0]?.id, later[0]?.id]));
});

test('no more are woken than the queue has room for, and those of later only when it takes delayed ones', async () => {
  await insertRuns(onward, workflowId, 20);
  expect((await duty(onward.source, (tx) => wakeRuns(tx, { ...ROOM, due: 3 }))).count).toBe(3);
  await deleteRuns(onward);
  await insertRuns(onward, workflowId, 2, { due: dueIn(20) });
  expect((await duty(onward.source, (tx) => wakeRuns(tx, { ...ROOM, takesDelayed: false }))).count).toBe(0);
  expect((await duty(onward.source, (tx) => wakeRuns(tx, ROOM))).count).toBe(2);
});

test('the oldest 2,000 are woken at once, whatever the order they were written in, and then the rest', async () => {
  const runs = await insertRuns(onward, workflowId, ROOM.due + 100, { due: `onward_now() - nth * interval '1 s'` });
  const first = await duty(onward.source, wake);
  expect(first.count).toBe(2_000);
  const left = await duty(onward.source, wake);
  expect(new Set(left.wakeUps.map(({ runId }) => runId))).toEqual(new Set(runs.slice(0, 100).map(({ id }) => id)));
});

test('two sweepers at once take different runs, and neither waits for the other', async () => {
  const runs = await insertRuns(onward, workflowId, ROOM.due + 300);
  const [taken, letCommit] = [latch(), latch()];
  const { teller, wakeUps } = listen();
  const slow = transactAndTell(onward.source, teller, async (tx) => {
    await wake(tx);
    taken.open();
    await letCommit.passed;
  });
  await taken.passed;
  const quick = await duty(onward.source, wake);
  letCommit.open();
  await slow;
  const all = [...wakeUps, ...quick.wakeUps].map(({ runId }) => runId);
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
  const long = (await insertRuns(onward, workflowId, 2_100, { woken: ago(0) })).map(({ id, claimId }) => ({ runId: id, claimId, workflowId, delayMs: 0 }));
  await expect.poll(() => queues.addWakeUps(long)).toBe(2_100);
  await expect.poll(async () => (await queues.room()).due, { timeout: 5_000 }).toBe(0);
  const runs = await insertRuns(onward, workflowId, 5, { due: dueIn(-60) });
  await sweeperOf(onward.backend).sweepFully();
  expect(await Promise.all(runs.map(async ({ id }) => (await worker.run(id)).wokenAt))).toEqual([null, null, null, null, null]);
  const admin = new Redis(onward.valkeyUrl);
  await admin.flushdb();
  admin.disconnect();
  await expect.poll(async () => (await queues.room()).due, { timeout: 5_000 }).toBe(2_000);
  await sweeperOf(onward.backend).sweepFully();
  for (const { id } of runs) expect((await worker.run(id)).wokenAt).not.toBeNull();
});
