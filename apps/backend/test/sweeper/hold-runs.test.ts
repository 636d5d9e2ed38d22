import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import type { Backend } from '../../src/create-backend.js';
import { transactAndTell } from '../../src/database/outbox.js';
import { change, rows } from '../../src/database/sql.js';
import { holdRuns, letGoOfRuns } from '../../src/sweeper/hold-runs.js';
import { wakeRuns } from '../../src/sweeper/wake-runs.js';
import { type BackendForTest, backendForTest } from '../backend-for-test.js';
import { HandWorker, line, publish, startRun, tag } from '../runtime/hand-worker.js';
import { anotherBackend, BY_HAND, deleteRuns, duty, insertRuns, latch, listen, ROOM, sweeperOf } from './sweeper-bench.js';

let onward: BackendForTest;
let other: Backend;
let worker: HandWorker;
beforeAll(async () => {
  onward = await backendForTest({ ...BY_HAND, AUTOMATIONS_LEASE_MS: '60000' });
  other = await anotherBackend(onward);
  worker = new HandWorker(onward);
  await Promise.all([sweeperOf(onward.backend).sweepFully(), sweeperOf(other).sweepFully()]);
});
afterAll(async () => {
  worker?.close();
  await other?.close();
  await onward?.close();
});
beforeEach(() => deleteRuns(onward));

const pause = async (workflowId: string) => expect((await onward.api('POST', `/workflows/${workflowId}/pause`)).status).toBeLessThan(300);
const resume = async (workflowId: string) => expect((await onward.api('POST', `/workflows/${workflowId}/resume`)).status).toBeLessThan(300);
const heldCount = async (workflowId: string) =>
  Number((await rows<{ count: string }>(onward.source, 'SELECT count(*) FROM runs WHERE is_held AND workflow_id = $1', [workflowId]))[0]?.count);
const letGoneAgo = (workflowId: string, seconds: number) =>
  change(onward.source, `UPDATE workflows SET let_go_at = clock_timestamp() - $2 * interval '1 s' WHERE id = $1`, [workflowId, seconds]);

test('what is due in a paused workflow is marked in batches of 1,000, and is not woken any more', async () => {
  const [paused, active] = [await publish(onward, line(tag('a'))), await publish(onward, line(tag('a')))];
  await insertRuns(onward, paused, 2_300);
  await insertRuns(onward, paused, 5, { due: `onward_now() + interval '1 h'` });
  const alive = await insertRuns(onward, active, 7);
  await pause(paused);
  const counts: number[] = [];
  for (let nth = 0; nth < 4; nth += 1) counts.push((await duty(onward.source, holdRuns)).count);
  expect(counts).toEqual([1_000, 1_000, 300, 0]);
  expect(await heldCount(paused)).toBe(2_300);
  expect(await heldCount(active)).toBe(0);
  const woken = await duty(onward.source, (tx) => wakeRuns(tx, ROOM));
  expect(new Set(woken.wakeUps.map(({ runId }) => runId))).toEqual(new Set(alive.map(({ id }) => id)));
  expect((await duty(onward.source, letGoOfRuns)).count).toBe(0);
});

test('a resumed workflow lets go of 250 runs at once, the oldest first, each under a new claim that the queue is told', async () => {
  const workflowId = await publish(onward, line(tag('a')));
  const runs = await insertRuns(onward, workflowId, 300, {
    due: `onward_now() - nth * interval '1 s'`,
    held: 'true',
    woken: `clock_timestamp() - interval '1 h'`,
  });
  await pause(workflowId);
  expect((await duty(onward.source, letGoOfRuns)).count).toBe(0);
  await resume(workflowId);
  const { count, wakeUps } = await duty(onward.source, letGoOfRuns);
  expect(count).toBe(250);
  const oldest = runs.slice(50);
  expect(new Set(wakeUps.map(({ runId }) => runId))).toEqual(new Set(oldest.map(({ id }) => id)));
  const now = new Map(
    (
      await rows<{ id: string; claimId: string; isHeld: boolean; isFresh: boolean }>(
        onward.source,
        `SELECT id, claim_id AS "claimId", is_held AS "isHeld", woken_at > clock_timestamp() - interval '1 min' AS "isFresh" FROM runs`,
      )
    ).map((run) => [run.id, run]),
  );
  for (const { id, claimId } of oldest) {
    expect(now.get(id)).toMatchObject({ isHeld: false, isFresh: true });
    expect(now.get(id)?.claimId).not.toBe(claimId);
    expect(wakeUps.find(({ runId }) => runId === id)).toEqual({ runId: id, claimId: now.get(id)?.claimId, workflowId, delayMs: 0 });
  }
  for (const { id, claimId } of runs.slice(0, 50)) expect(now.get(id)).toMatchObject({ isHeld: true, claimId });
});

test.each([
  [0, 0],
  [1, 50],
  [2.5, 125],
  [5, 250],
  [3_600, 250],
])('%f s after the last time %i are let go of', async (seconds, share) => {
  const workflowId = await publish(onward, line(tag('a')));
  await insertRuns(onward, workflowId, 400, { held: 'true' });
  await letGoneAgo(workflowId, seconds);
  const { count } = await duty(onward.source, letGoOfRuns);
  // The statement itself may take a moment, in which a few more come free.
  expect(count).toBeGreaterThanOrEqual(share);
  expect(count).toBeLessThanOrEqual(Math.min(250, share + 25));
});

test('each workflow has a pace of its own', async () => {
  const workflows = [await publish(onward, line(tag('a'))), await publish(onward, line(tag('a')))];
  for (const id of workflows) await insertRuns(onward, id, 260, { held: 'true' });
  expect((await duty(onward.source, letGoOfRuns)).count).toBe(500);
  expect(await Promise.all(workflows.map(heldCount))).toEqual([10, 10]);
});

test('while one sweeper lets go of a workflow another passes it over', async () => {
  const workflowId = await publish(onward, line(tag('a')));
  await insertRuns(onward, workflowId, 600, { held: 'true' });
  const [taken, letCommit] = [latch(), latch()];
  const { teller, wakeUps } = listen();
  const slow = transactAndTell(onward.source, teller, async (tx) => {
    await letGoOfRuns(tx);
    taken.open();
    await letCommit.passed;
  });
  await taken.passed;
  const quick = await duty(other.source, letGoOfRuns);
  letCommit.open();
  await slow;
  expect([wakeUps.length, quick.count]).toEqual([250, 0]);
});

test('a workflow whose runs are being started meanwhile is not passed over', async () => {
  const workflowId = await publish(onward, line(tag('a')));
  await insertRuns(onward, workflowId, 10, { held: 'true' });
  const { teller } = listen();
  const [started, letCommit] = [latch(), latch()];
  const starting = transactAndTell(onward.source, teller, async (tx) => {
    await insertRuns({ source: tx }, workflowId, 1);
    started.open();
    await letCommit.passed;
  });
  await started.passed;
  const { count } = await duty(other.source, letGoOfRuns);
  letCommit.open();
  await starting;
  expect(count).toBe(10);
});

test('two backends that sweep without pause keep the pace together', async () => {
  const workflowId = await publish(onward, line(tag('a')));
  await insertRuns(onward, workflowId, 1_500, { held: 'true' });
  const beganAt = performance.now();
  const sweep = async (backend: Backend) => {
    for (let nth = 0; nth < 30; nth += 1) await sweeperOf(backend).sweepFully();
  };
  await Promise.all([sweep(onward.backend), sweep(other)]);
  const elapsedS = (performance.now() - beganAt) / 1_000;
  const freed = 1_500 - (await heldCount(workflowId));
  expect(freed).toBeGreaterThanOrEqual(250);
  expect(freed).toBeLessThanOrEqual(250 + Math.ceil(50 * elapsedS));
});

test('a run held back while its workflow was paused goes on under a new claim, and its old wake-up is out of date', async () => {
  const workflowId = await publish(onward, line(tag('a')));
  const { runId } = await startRun(onward, workflowId);
  const before = await worker.wakeUp(runId);
  await pause(workflowId);
  await sweeperOf(other).sweepFully();
  expect(await worker.run(runId)).toMatchObject({ state: 'pending', isHeld: true, claimId: before.claimId });
  expect(await worker.call('prepare', { ...before, callId: 1 })).toEqual({ kind: 'held' });
  await resume(workflowId);
  await sweeperOf(onward.backend).sweepFully();
  expect(await worker.run(runId)).toMatchObject({ isHeld: false });
  expect(await worker.call('prepare', { ...before, callId: 2 })).toEqual({ kind: 'refused', reason: 'stale_claim' });
  expect((await worker.begin(runId)).replies[0]).toMatchObject({ kind: 'claimed', node: 'a' });
});

test('a held run that is cancelled is not let go of', async () => {
  const workflowId = await publish(onward, line(tag('a')));
  const { runId } = await startRun(onward, workflowId);
  await pause(workflowId);
  await duty(onward.source, holdRuns);
  expect((await onward.api('POST', `/runs/${runId}/cancel`)).status).toBe(200);
  await resume(workflowId);
  expect((await duty(onward.source, letGoOfRuns)).wakeUps).toEqual([]);
  expect(await worker.run(runId)).toMatchObject({ state: 'cancelled', isHeld: false });
});
