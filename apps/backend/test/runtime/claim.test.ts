import { afterAll, beforeAll, expect, test } from 'vitest';
import { transactAndTell } from '../../src/database/outbox.js';
import { change, rows, transact } from '../../src/database/sql.js';
import { Queues } from '../../src/operations/queues.js';
import { RuntimeKit } from '../../src/runtime/runtime-kit.js';
import { lapseRuns } from '../../src/sweeper/lapse-runs.js';
import { type BackendForTest, backendForTest } from '../backend-for-test.js';
import { type HandItem, HandWorker, line, publish, send, startRun, tag, wait } from './hand-worker.js';

let onward: BackendForTest;
let worker: HandWorker;
beforeAll(async () => {
  onward = await backendForTest({ AUTOMATIONS_SWEEP_INTERVAL_MS: '100000', AUTOMATIONS_LEASE_MS: '60000' });
  worker = new HandWorker(onward);
});
afterAll(async () => {
  worker?.close();
  await onward?.close();
});

test('the same hand-out gets the same epoch again, a later one a higher, an earlier one nothing', async () => {
  const { runId } = await startRun(onward, await publish(onward, line(tag('a'))));
  const ref = await worker.wakeUp(runId);
  const first = await worker.call('prepare', { ...ref, callId: 3 });
  expect(first).toMatchObject({ kind: 'claimed', epoch: 1, seq: 2, node: 'a' });
  expect(await worker.call('prepare', { ...ref, callId: 3 })).toMatchObject({ kind: 'claimed', epoch: 1 });
  expect(await worker.call('prepare', { ...ref, callId: 4 })).toMatchObject({ kind: 'claimed', epoch: 2 });
  expect(await worker.call('prepare', { ...ref, callId: 3 })).toEqual({ kind: 'refused', reason: 'lower_call' });
});

test('whoever holds an older epoch is refused as a value and changes nothing', async () => {
  const { runId } = await startRun(onward, await publish(onward, line(send('call'))));
  const { at } = await worker.begin(runId, 1);
  const ref = await worker.wakeUp(runId);
  await worker.call('prepare', { ...ref, callId: 2 });
  const before = [await worker.run(runId), await worker.attempts(runId)];
  const outcome = { kind: 'done' as const, output: 'late' };
  for (const name of ['plan', 'execute', 'latest', 'create', 'advance', 'wait', 'succeed', 'fail', 'retry', 'dead-letter', 'notify-failed'] as const) {
    expect([name, await worker.call(name, at)]).toEqual([name, { kind: 'refused', reason: 'stale_epoch' }]);
  }
  expect(await worker.call('update', { ...at, n: 1, outcome })).toEqual({ kind: 'refused', reason: 'stale_epoch' });
  expect(await worker.call('prepare', { ...ref, renew: true, epoch: 1 })).toEqual({ kind: 'refused', reason: 'stale_epoch' });
  expect([await worker.run(runId), await worker.attempts(runId)]).toEqual(before);
});

test('a workflow paused while a call waits for its run is found paused when the call has it', async () => {
  const workflowId = await publish(onward, line(tag('a'), tag('b')));
  const { runId } = await startRun(onward, workflowId);
  const { at } = await worker.begin(runId, 1);
  let advancing: ReturnType<HandWorker['call']> | undefined;
  await transact(onward.source, async (tx) => {
    await rows(tx, 'SELECT 1 FROM runs WHERE id = $1 FOR UPDATE', [runId]);
    advancing = worker.call('advance', at);
    const waits = `SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`;
    await expect.poll(() => rows(onward.source, waits), { timeout: 20_000 }).not.toEqual([]);
    expect((await onward.api('POST', `/workflows/${workflowId}/pause`)).status).toBe(200);
  });
  expect(await advancing).toMatchObject({ kind: 'rests', state: 'pending' });
  expect(await worker.run(runId)).toMatchObject({ node: 'b', isHeld: true });
});

test('an older claim that is renewed beside the live one of the same run is refused', async () => {
  const { runId } = await startRun(onward, await publish(onward, line(tag('a'))));
  const ref = await worker.wakeUp(runId);
  for (const callId of [1, 2]) await worker.call('prepare', { ...ref, callId });
  const answers = await worker.frameOf(0, ...[1, 2].map((epoch): HandItem[] => [['prepare', { ...ref, renew: true, epoch }]]));
  expect(answers.map(({ replies }) => replies)).toEqual([[{ kind: 'refused', reason: 'stale_epoch' }], [{ kind: 'renewed', leaseMs: 60_000 }]]);
});

test('a wake-up of another claim is out of date, and one of a run that does not exist is refused', async () => {
  const { runId } = await startRun(onward, await publish(onward, line(tag('a'))));
  const claimId = '01960000-0000-7000-8000-000000000000';
  expect(await worker.call('prepare', { runId, claimId, callId: 1 })).toEqual({ kind: 'refused', reason: 'stale_claim' });
  expect(await worker.call('prepare', { runId: claimId, claimId, callId: 1 })).toEqual({ kind: 'refused', reason: 'unknown_run' });
});

test('a wake-up that comes early is told how long to wait, and the run stays as it is', async () => {
  const { runId } = await startRun(onward, await publish(onward, line(wait('rest', '1h'), tag('a'))));
  const { at } = await worker.begin(runId);
  await worker.call('wait', at);
  const ref = await worker.wakeUp(runId);
  const early = await worker.call('prepare', { ...ref, callId: 1 });
  expect(early).toMatchObject({ kind: 'not_due' });
  expect('inMs' in early && early.inMs).toBeGreaterThan(3_590_000);
  expect(await worker.run(runId)).toMatchObject({ state: 'waiting', node: 'rest' });
});

test('a lapsed lease gives the run back at the same step under a new claim and spends no attempt', async () => {
  const { runId } = await startRun(onward, await publish(onward, line(tag('a'))));
  const ref = await worker.wakeUp(runId);
  const at = { ...ref, epoch: 1, seq: 2 };
  await worker.frame(['prepare', { ...ref, callId: 1 }], ['create', ref]);
  await change(onward.source, `UPDATE runs SET lease_until = clock_timestamp() - interval '1 second' WHERE id = $1`, [runId]);
  // In the first lease after its start a sweeper lapses nothing: the worker may be alive and only have found nobody to renew with.
  await onward.clock.advance('PT0S');
  expect(await worker.run(runId)).toMatchObject({ state: 'running', takeovers: 0 });
  expect(await lapse()).toBe(1);
  const lapsed = await worker.run(runId);
  expect(lapsed).toMatchObject({ state: 'pending', node: 'a', seq: 2, n: 1, takeovers: 1 });
  expect(lapsed.claimId).not.toBe(ref.claimId);
  // Whatever the old claim says now moves nothing: it is told where the run rests.
  expect(await worker.call('advance', at)).toMatchObject({ kind: 'rests', state: 'pending' });
  expect(await worker.call('update', { ...at, n: 1, outcome: { kind: 'done', output: 'late' } })).toEqual({ kind: 'refused', reason: 'no_attempt' });
  expect(await worker.run(runId)).toEqual(lapsed);
  const again = await worker.begin(runId);
  expect(again.replies.at(-1)).toMatchObject({ kind: 'outcome', outcome: { kind: 'done' } });
  expect(await worker.attempts(runId)).toMatchObject([{ node: 'start' }, { node: 'a', n: 1, status: 'done' }]);
});

test('a step that was taken up 25 times buries its run, and says why', async () => {
  const { runId } = await startRun(onward, await publish(onward, line(send('call'))));
  const ref = await worker.wakeUp(runId);
  let last: unknown;
  for (let callId = 1; callId <= 26; callId += 1) last = await worker.call('prepare', { ...ref, callId });
  expect(last).toMatchObject({ kind: 'rests', state: 'dead_lettered' });
  expect(await worker.run(runId)).toMatchObject({ state: 'dead_lettered', endReason: 'poison_step', node: 'call' });
});

test('a renewal prolongs the lease of exactly its epoch and never raises it', async () => {
  const { runId } = await startRun(onward, await publish(onward, line(tag('a'))));
  const ref = await worker.wakeUp(runId);
  await worker.call('prepare', { ...ref, callId: 1 });
  await change(onward.source, `UPDATE runs SET lease_until = clock_timestamp() WHERE id = $1`, [runId]);
  expect(await worker.call('prepare', { ...ref, renew: true, epoch: 1 })).toEqual({ kind: 'renewed', leaseMs: 60_000 });
  expect(await worker.run(runId)).toMatchObject({ state: 'running', epoch: 1 });
  expect(await worker.call('prepare', { ...ref, renew: true, epoch: 2 })).toEqual({ kind: 'refused', reason: 'stale_epoch' });
});

/** What a sweeper does once its first lease is over. */
function lapse(): Promise<number> {
  const { app, source } = onward.backend;
  return transactAndTell(source, app.get(Queues), (tx) => lapseRuns(tx, app.get(RuntimeKit, { strict: false })));
}
