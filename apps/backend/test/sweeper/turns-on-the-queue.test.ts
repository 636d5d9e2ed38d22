/** A crowd of one workflow and the run of another, on a real queue that a consumer works off in the order it is handed out. */
import { AUTOMATIONS_QUEUE, QUEUE_PREFIX } from '@onward/contracts/queues';
import { Worker } from 'bullmq';
import { Redis } from 'ioredis';
import { afterAll, beforeAll, beforeEach, expect, test, vi } from 'vitest';
import { newId } from '../../src/database/new-id.js';
import { outboxOf, planWakeUp, transactAndTell } from '../../src/database/outbox.js';
import { rows } from '../../src/database/sql.js';
import { type BackendForTest, backendForTest } from '../backend-for-test.js';
import { line, publish, startRun, tag } from '../runtime/hand-worker.js';
import { anotherBackend, BY_HAND, deleteRuns, insertRuns, latch, queuesOf, readQueue, sweeperOf } from './sweeper-bench.js';

/** As many due runs of one workflow as the queue takes from a backend. */
const SHARE = 1_000;
let onward: BackendForTest;
let admin: Redis;
let queue: ReturnType<typeof readQueue>;
beforeAll(async () => {
  onward = await backendForTest(BY_HAND);
  admin = new Redis(onward.valkeyUrl);
  queue = readQueue(onward.valkeyUrl);
});
beforeEach(async () => {
  await deleteRuns(onward);
  await admin.flushdb();
});
afterAll(async () => {
  await queue?.close();
  admin?.disconnect();
  await onward?.close();
});

const told = async (workflowId: string) =>
  (await rows<{ count: number }>(onward.source, 'SELECT count(*)::int AS count FROM runs WHERE workflow_id = $1 AND woken_at IS NOT NULL', [workflowId]))[0]
    ?.count;

test('a run that begins behind a crowd of another workflow is handed out before the last 8,000 of it', async () => {
  const crowd = await publish(onward, line(tag('a')));
  const other = await publish(onward, line(tag('b')));
  await insertRuns(onward, crowd, 10_000, { due: `onward_now() - interval '1 min' + nth * interval '1 ms'` });
  await sweeperOf(onward.backend).sweepFully();
  expect(await told(crowd)).toBe(SHARE);
  const { runId } = await startRun(onward, other);
  expect(await told(other)).toBe(1);
  await expect.poll(async () => (await queue.waiting()).length, { timeout: 30_000 }).toBe(SHARE + 1);

  const taken: string[] = [];
  const worker = new Worker<{ runId: string }>(AUTOMATIONS_QUEUE, async ({ data }) => void taken.push(data.runId), {
    connection: { url: onward.valkeyUrl },
    prefix: QUEUE_PREFIX,
    removeOnComplete: { count: 0 },
  });
  await expect.poll(() => taken.length, { timeout: 60_000 }).toBe(SHARE + 1);
  await worker.close();
  expect(taken.indexOf(runId)).toBeLessThan(10);
}, 120_000);

test('a run that begins when a thousand of another workflow have come due together is not handed out after them', async () => {
  const queues = queuesOf(onward.backend);
  const taken: string[] = [];
  const [begun, letGo] = [latch(), latch()];
  await queues.addWakeUps(Array.from({ length: 1_000 }, (_, nth) => ({ runId: `a${nth}`, claimId: `a${nth}`, workflowId: 'crowd', delayMs: 100 })));
  await expect.poll(async () => (await queue.delayed()).filter(({ at }) => at <= Date.now()).length, { timeout: 20_000 }).toBe(1_000);
  // Who takes the first one makes all that are due stand in turn.
  const worker = new Worker<{ runId: string }>(
    AUTOMATIONS_QUEUE,
    async ({ data }) => {
      taken.push(data.runId);
      begun.open();
      await letGo.passed;
    },
    { connection: { url: onward.valkeyUrl }, prefix: QUEUE_PREFIX, removeOnComplete: { count: 0 } },
  );
  await begun.passed;
  await queues.addWakeUps([{ runId: 'b', claimId: 'b', workflowId: 'other', delayMs: 0 }]);
  letGo.open();
  await expect.poll(() => taken.length, { timeout: 60_000 }).toBe(1_001);
  await worker.close();
  expect(taken.indexOf('b')).toBeLessThan(10);
}, 120_000);

test('a backend that did not see the queue run empty puts nobody behind a crowd that another has told since', async () => {
  const other = await anotherBackend(onward);
  try {
    const [mine, others] = [queuesOf(onward.backend), queuesOf(other)];
    const crowd = (count: number) => Array.from({ length: count }, () => ({ runId: newId(), claimId: newId(), workflowId: 'crowd', delayMs: 0 }));
    const [first, inTurn] = ['wait', 'prioritized'].map((kind) => `${QUEUE_PREFIX}:${AUTOMATIONS_QUEUE}:${kind}`) as [string, string];
    await mine.addWakeUps(crowd(300));
    await admin.del(first);
    await admin.zremrangebyrank(inTurn, 0, 199);
    await mine.room();
    await admin.flushdb();
    await others.room();
    await others.addWakeUps(crowd(150));
    // Told before it could see anything: it stands where the old turns were.
    const tell = (id: string) => mine.addWakeUps([{ runId: id, claimId: id, workflowId: id, delayMs: 0 }]);
    await tell('early');
    await mine.room();
    await tell('b');
    expect(await admin.zrank(inTurn, 'b')).toBeLessThan(5);
    expect(await admin.zcard(inTurn)).toBeGreaterThan(100);
  } finally {
    await other.close();
  }
}, 60_000);

test('what is left of a crowd is told as soon as claims have made room, and not only by the next pass', async () => {
  const crowd = await publish(onward, line(tag('a')));
  await insertRuns(onward, crowd, 1_500, { due: `onward_now() - interval '1 min'` });
  await sweeperOf(onward.backend).sweepFully();
  expect(await told(crowd)).toBe(SHARE);
  await admin.flushdb();
  for (let claim = 0; claim < 300; claim += 1) queuesOf(onward.backend).noteClaim();
  await expect.poll(() => told(crowd), { timeout: 20_000 }).toBe(1_500);
}, 60_000);

test('a run that found no room is looked for again after its commit, though a pass between saw nothing of it', async () => {
  const queues = queuesOf(onward.backend);
  const crowd = await publish(onward, line(tag('a')));
  await insertRuns(onward, crowd, SHARE, { due: `onward_now() - interval '1 min'` });
  // The second pass counts what the first one added.
  for (let pass = 0; pass < 2; pass += 1) await sweeperOf(onward.backend).sweepFully();
  expect(queues.hasBacklog).toBe(false);
  await transactAndTell(onward.source, queues, async (tx) => {
    const areTaken = Array.from({ length: 3 }, () => planWakeUp(tx, { runId: newId(), claimId: newId(), workflowId: crowd, delayMs: 0 }));
    expect(areTaken.at(-1)).toBe(false);
    await sweeperOf(onward.backend).sweepFully();
    expect(queues.hasBacklog).toBe(false);
  });
  expect(queues.hasBacklog).toBe(true);
}, 60_000);

test('while as many runs as the queue takes are planned for their time, the sweeper looks for others that come due before its next pass', async () => {
  const queues = queuesOf(onward.backend);
  const look = async () => {
    for (let pass = 0; pass < 2; pass += 1) await sweeperOf(onward.backend).sweepFully();
    return queues.hasBacklog;
  };
  expect(await look()).toBe(false);
  await queues.addWakeUps(Array.from({ length: 2_000 }, (_, nth) => ({ runId: `r${nth}`, claimId: `c${nth}`, workflowId: 'w', delayMs: 60_000 })));
  expect(await look()).toBe(true);
  await admin.flushdb();
  expect(await look()).toBe(false);
});

test('a pass that has filled the few places there are leaves it at that, for claims free some all the time and its other duties wait', async () => {
  const queues = queuesOf(onward.backend);
  const crowd = await publish(onward, line(tag('a')));
  await insertRuns(onward, crowd, SHARE, { due: `onward_now() - interval '1 min'` });
  const room = vi.spyOn(queues, 'room').mockResolvedValue({ due: 5, takesDelayed: false, shareOf: () => SHARE });
  try {
    await transactAndTell(onward.source, queues, async (tx) => void Object.assign(outboxOf(tx), { isRunLeft: true }));
    for (let claim = 0; claim < 200; claim += 1) queues.noteClaim();
    await expect.poll(() => told(crowd), { timeout: 20_000 }).toBeGreaterThan(0);
    // As long as many more of them would take.
    for (let nth = 0; nth < 5; nth += 1) await publish(onward, line(tag('b')));
    expect(room).toHaveBeenCalledTimes(1);
    expect(await told(crowd)).toBe(5);
  } finally {
    room.mockRestore();
  }
}, 60_000);
