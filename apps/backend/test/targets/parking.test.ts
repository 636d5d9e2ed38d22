import { afterAll, beforeAll, expect, test } from 'vitest';
import { change, rows, transact } from '../../src/database/sql.js';
import { wakeRuns } from '../../src/sweeper/wake-runs.js';
import { wakeLost } from '../../src/sweeper/wake-lost.js';
import { type BackendForTest, backendForTest } from '../backend-for-test.js';
import { HandWorker, startRun } from '../runtime/hand-worker.js';
import { BY_HAND, duty, readQueue, sweeperOf } from '../sweeper/sweeper-bench.js';
import { answered, beginRun, beginRuns, blocked, callingAt, newOrigin, operate, runsOf, targetAt } from './target-bench.js';

const ROOM = { due: 1_000, takesDelayed: true, shareOf: () => 1_000 };

let onward: BackendForTest;
let worker: HandWorker;
beforeAll(async () => {
  onward = await backendForTest({ ...BY_HAND, AUTOMATIONS_LEASE_MS: '60000' });
  worker = new HandWorker(onward);
  await sweeperOf(onward.backend).sweepFully();
});
afterAll(async () => {
  worker?.close();
  await onward?.close();
});

const frozen = (runId: string) => rows(onward.source, 'SELECT seq FROM outbound_requests WHERE run_id = $1', [runId]);
const callsOf = async (runId: string) => (await worker.attempts(runId)).filter(({ node }) => node === 'call');
type View = { state: string; why: string; attempt: number; dueAt: string | null; waitReason: string | null };

test('a run at an open target is parked before anything is frozen or spent, and says where and until when', async () => {
  const origin = newOrigin();
  await operate(onward, origin, 'open');
  const run = await beginRun(onward, worker, await callingAt(onward, origin));
  const { runId } = run;
  const { blockedUntil } = await targetAt(onward, origin);
  const until = blockedUntil?.toISOString();
  expect(run.last).toEqual({ kind: 'rests', state: 'waiting', why: `blocked by ${origin}, tried again at ${until}`, dueAt: until });
  expect(await worker.run(runId)).toMatchObject({ state: 'waiting', n: 1, dueAt: blockedUntil, wokenAt: null, resolution: null });
  expect(await callsOf(runId)).toMatchObject([{ n: 1, status: 'not_sent', failure: null, output: { why: 'opened by an operator', origin, until } }]);
  expect(await frozen(runId)).toEqual([]);
  expect((await onward.api<View>('GET', `/runs/${runId}`)).body).toMatchObject({
    state: 'waiting',
    attempt: 1,
    waitReason: 'target',
    why: `blocked by ${origin}, tried again at ${until}`,
    dueAt: until,
  });
  const queue = readQueue(onward.valkeyUrl);
  try {
    const { claimId } = await worker.run(runId);
    expect([...(await queue.waiting()), ...(await queue.delayed())].map(({ id }) => id)).not.toContain(claimId);
  } finally {
    await queue.close();
  }
});

test('a sweep wakes no parked run, however near its time is, and neither does a lost wake-up of the time before', async () => {
  const origin = newOrigin();
  await operate(onward, origin, 'open');
  const { runId } = await beginRun(onward, worker, await callingAt(onward, origin));
  await sweeperOf(onward.backend).sweepFully();
  expect(await worker.run(runId)).toMatchObject({ state: 'waiting', wokenAt: null, resolution: null });
  // As it stands when the time has passed and no sweeper has looked at the target yet.
  await change(onward.source, `UPDATE runs SET due_at = onward_now() - interval '1 minute', woken_at = NULL WHERE id = $1`, [runId]);
  expect((await duty(onward.source, (tx) => wakeRuns(tx, ROOM))).wakeUps.map((wakeUp) => wakeUp.runId)).not.toContain(runId);
  await change(onward.source, `UPDATE runs SET woken_at = clock_timestamp() - interval '1 minute' WHERE id = $1`, [runId]);
  const told: string[] = [];
  await wakeLost(onward.source, {
    takes: () => true,
    tell: ({ wakeUps }) => told.push(...wakeUps.map((wakeUp) => wakeUp.runId)),
    standing: async () => new Set(),
  });
  expect(told).not.toContain(runId);
});

test('a run let go sends under the same n, and its history counts no failure for having waited', async () => {
  const origin = newOrigin();
  await operate(onward, origin, 'open');
  const run = await beginRun(onward, worker, await callingAt(onward, origin));
  const { runId } = run;
  await operate(onward, origin, 'close');
  await sweeperOf(onward.backend).sweepFully();
  expect(await worker.run(runId)).toMatchObject({ state: 'waiting', resolution: { kind: 'not_sent', why: 'the target is free again' } });
  const { at, replies } = await worker.begin(runId);
  expect(replies[2]).toMatchObject({ kind: 'attempt', n: 1, tally: { failed: 0, uncertain: 0 }, outcome: null });
  expect(replies[3]).toMatchObject({ kind: 'send', target: { origin } });
  await worker.frame(['update', { ...at, n: 1, outcome: { kind: 'done', output: null } }], ['advance', at]);
  expect(await callsOf(runId)).toMatchObject([{ n: 1, status: 'done', verb: 'advance', failure: null }]);
});

test('a retry whose request is frozen is parked too, and goes out later with the same key and body', async () => {
  const origin = newOrigin();
  const run = await beginRun(onward, worker, await callingAt(onward, origin));
  const { runId } = run;
  const { at } = run;
  await worker.frame(['update', { ...at, n: 1, outcome: answered(500) }], ['retry', at]);
  await onward.clock.advance('PT2M');
  await operate(onward, origin, 'open');
  const second = await worker.begin(runId);
  expect(second.replies.at(-1)).toMatchObject({ kind: 'rests', state: 'waiting' });
  expect(await worker.run(runId)).toMatchObject({ state: 'waiting', n: 2 });
  await operate(onward, origin, 'close');
  await sweeperOf(onward.backend).sweepFully();
  const third = await worker.begin(runId);
  expect(third.replies[2]).toMatchObject({ kind: 'attempt', n: 2, tally: { failed: 1, uncertain: 0 } });
  expect(third.replies[3]).toMatchObject({ kind: 'send', request: (run.last as { request?: object }).request });
  expect(await callsOf(runId)).toMatchObject([
    { n: 1, status: 'failed' },
    { n: 2, status: 'sending' },
  ]);
});

test.each(['busy', 'rate', 'held'] as const)(
  'a send its worker held back (%s) rests until then, unwoken, under the same n; the target stays closed',
  async (by) => {
    const origin = newOrigin();
    const run = await beginRun(onward, worker, await callingAt(onward, origin));
    const { runId } = run;
    const { at } = run;
    const replies = await worker.frame(['update', { ...at, n: 1, outcome: blocked(origin, by, 1_500) }], ['wait', at]);
    expect(replies).toMatchObject([
      { kind: 'recorded', verb: 'wait' },
      { kind: 'rests', state: 'waiting' },
    ]);
    const [left] = await rows<{ ms: number }>(onward.source, `SELECT extract(epoch FROM due_at - onward_now())::float8 * 1000 AS ms FROM runs WHERE id = $1`, [
      runId,
    ]);
    expect(left?.ms).toBeGreaterThan(0);
    expect(left?.ms).toBeLessThanOrEqual(1_501);
    expect(await worker.run(runId)).toMatchObject({ state: 'waiting', n: 1, wokenAt: null, resolution: null });
    expect(await callsOf(runId)).toMatchObject([{ n: 1, status: 'not_sent', failure: null }]);
    expect(await targetAt(onward, origin)).toMatchObject({ state: 'closed' });
    await sweeperOf(onward.backend).sweepFully();
    const again = await worker.begin(runId);
    expect(again.replies[3]).toMatchObject({ kind: 'send' });
  },
);

test('a cancel of a parked run works at once, and one asked for while its send was held back ends it instead of parking it', async () => {
  const origin = newOrigin();
  const workflowId = await callingAt(onward, origin);
  const sending = await beginRun(onward, worker, workflowId);
  await operate(onward, origin, 'open');
  const parked = await beginRun(onward, worker, workflowId);
  expect((await onward.api<{ cancelled: string }>('POST', `/runs/${parked.runId}/cancel`)).body).toMatchObject({
    cancelled: 'now',
    run: { state: 'cancelled' },
  });
  expect((await onward.api('POST', `/runs/${sending.runId}/cancel`)).body).toMatchObject({ cancelled: 'after_step' });
  const { at } = sending;
  await worker.frame(['update', { ...at, n: 1, outcome: blocked(origin, 'busy', 1_500) }], ['wait', at]);
  expect(await worker.run(sending.runId)).toMatchObject({ state: 'cancelled' });
});

test('a cancel asked for between the beginning of a step and its execution ends the run at a blocked target', async () => {
  const origin = newOrigin();
  await operate(onward, origin, 'open');
  const { runId } = await startRun(onward, await callingAt(onward, origin));
  const ref = await worker.wakeUp(runId);
  const [prepared] = await worker.frame(['prepare', { ...ref, callId: 1 }], ['create', ref]);
  const at = { ...ref, epoch: Number(prepared?.['epoch']), seq: Number(prepared?.['seq']) };
  await onward.api('POST', `/runs/${runId}/cancel`);
  expect(await worker.call('execute', at)).toMatchObject({ kind: 'rests', state: 'cancelled' });
});

test('a pause of the workflow leaves a parked run where it is; it is let go only when both workflow and target are free', async () => {
  const origin = newOrigin();
  const workflowId = await callingAt(onward, origin);
  await operate(onward, origin, 'open');
  const run = await beginRun(onward, worker, workflowId);
  const { runId } = run;
  await onward.api('POST', `/workflows/${workflowId}/pause`);
  await onward.clock.advance('PT5M');
  // Its time has passed, and yet it is neither held nor the probe: another could go, it could not.
  expect(await worker.run(runId)).toMatchObject({ state: 'waiting', isHeld: false, resolution: null });
  expect(await targetAt(onward, origin)).toMatchObject({ state: 'open', probeRunId: null });
  await operate(onward, origin, 'close');
  await sweeperOf(onward.backend).sweepFully();
  expect(await worker.run(runId)).toMatchObject({ state: 'waiting', isHeld: false, resolution: null });
  await onward.api('POST', `/workflows/${workflowId}/resume`);
  await sweeperOf(onward.backend).sweepFully();
  expect(await worker.run(runId)).toMatchObject({ state: 'waiting', isHeld: false, resolution: { kind: 'not_sent' } });
});

test('a parked run of a paused workflow keeps nobody else from probing', async () => {
  const origin = newOrigin();
  const pausedId = await callingAt(onward, origin);
  await operate(onward, origin, 'open');
  await beginRuns(onward, worker, pausedId, 1);
  await onward.api('POST', `/workflows/${pausedId}/pause`);
  await onward.clock.advance('PT5M');
  const other = await beginRun(onward, worker, await callingAt(onward, origin));
  expect(other.last).toMatchObject({ kind: 'send' });
  expect(await targetAt(onward, origin)).toMatchObject({ state: 'half_open', probeRunId: other.runId });
});

test('a move of the clock wakes no parked run but the one that probes, and mints no claim for the others', async () => {
  const origin = newOrigin();
  const workflowId = await callingAt(onward, origin);
  await operate(onward, origin, 'open');
  await beginRuns(onward, worker, workflowId, 3);
  const before = await runsOf(onward, workflowId);
  await onward.clock.advance('PT1H');
  const after = await runsOf(onward, workflowId);
  expect(after.map(({ claimId }, nth) => claimId === before[nth]?.claimId)).toEqual([false, true, true]);
  expect(after.map(({ wokenAt }) => wokenAt !== null)).toEqual([true, false, false]);
});

test('a replay and a take-over at a blocked target are parked like anything else', async () => {
  const origin = newOrigin();
  const workflowId = await callingAt(onward, origin);
  const run = await beginRun(onward, worker, workflowId);
  const { runId } = run;
  const { at } = run;
  await worker.frame(['update', { ...at, n: 1, outcome: answered(404) }], ['fail', at]);
  await operate(onward, origin, 'open');
  expect((await onward.api('POST', `/runs/${runId}/replay`, {})).status).toBe(200);
  const ref = await worker.wakeUp(runId);
  await worker.frame(['prepare', { ...ref, callId: 1 }], ['create', ref]);
  const { replies } = await worker.begin(runId, 2);
  expect(replies.at(-1)).toMatchObject({ kind: 'rests', state: 'waiting' });
  expect(await worker.run(runId)).toMatchObject({ state: 'waiting', seq: 3, n: 1 });
  expect((await callsOf(runId)).at(-1)).toMatchObject({ seq: 3, n: 1, status: 'not_sent' });
});

test('a request that may have left is never parked: its hand-over is answered again, though the target is open by now', async () => {
  const origin = newOrigin();
  const run = await beginRun(onward, worker, await callingAt(onward, origin));
  await operate(onward, origin, 'open');
  const { at } = run;
  expect(await worker.call('execute', at)).toMatchObject({ kind: 'send', target: { origin } });
});

test('parking counts neither as a lapse nor as a take-over, however often it happens', async () => {
  const origin = newOrigin();
  const run = await beginRun(onward, worker, await callingAt(onward, origin));
  const { runId } = run;
  let { at } = run;
  for (let times = 0; times < 30; times += 1) {
    await worker.frame(['update', { ...at, n: 1, outcome: blocked(origin, 'busy', 0) }], ['wait', at]);
    await change(onward.source, 'UPDATE targets SET released_until = NULL WHERE origin = $1', [origin]);
    await sweeperOf(onward.backend).sweepFully();
    at = (await worker.begin(runId)).at;
  }
  expect(await worker.run(runId)).toMatchObject({ state: 'running', n: 1, takeovers: 0 });
  expect(await callsOf(runId)).toHaveLength(1);
});

test('a run held back rests at the target of its own request, whatever origin its worker names', async () => {
  const [origin, elsewhere] = [newOrigin(), newOrigin()];
  const run = await beginRun(onward, worker, await callingAt(onward, origin));
  await worker.frame(['update', { ...run.at, n: 1, outcome: blocked(elsewhere, 'busy', 0) }], ['wait', run.at]);
  expect((await rows<{ key: string }>(onward.source, 'SELECT wait_key AS key FROM runs WHERE id = $1', [run.runId]))[0]?.key).toBe(`target:${origin}`);
  await sweeperOf(onward.backend).sweepFully();
  expect(await worker.run(run.runId)).toMatchObject({ resolution: { kind: 'not_sent' } });
});

test('runs parked at a target whose row was deleted by hand get a new one, and go on', async () => {
  const origin = newOrigin();
  const workflowId = await callingAt(onward, origin);
  await operate(onward, origin, 'open');
  const begun = await beginRuns(onward, worker, workflowId, 2);
  await change(onward.source, 'DELETE FROM targets WHERE origin = $1', [origin]);
  await sweeperOf(onward.backend).sweepFully();
  expect(await targetAt(onward, origin)).toMatchObject({ state: 'closed' });
  for (const { runId } of begun) expect(await worker.run(runId)).toMatchObject({ resolution: { kind: 'not_sent' } });
});

test.each(['busy', 'rate', 'held'] as const)('a send held back (%s) is recorded without waiting for whoever holds the row of its target', async (by) => {
  const origin = newOrigin();
  const run = await beginRun(onward, worker, await callingAt(onward, origin));
  await transact(onward.source, async (tx) => {
    await rows(tx, 'SELECT 1 FROM targets WHERE origin = $1 FOR UPDATE', [origin]);
    expect(await worker.frame(['update', { ...run.at, n: 1, outcome: blocked(origin, by, 1_500) }], ['wait', run.at])).toMatchObject([
      { kind: 'recorded' },
      { kind: 'rests' },
    ]);
  });
});

test('a target whose reason is long blocks with as much of it as an outcome may say', async () => {
  const origin = newOrigin();
  await operate(onward, origin, 'open');
  await change(onward.source, `UPDATE targets SET why = repeat('x', 1000) WHERE origin = $1`, [origin]);
  const { runId } = await beginRun(onward, worker, await callingAt(onward, origin));
  expect((await callsOf(runId))[0]?.output).toMatchObject({ why: 'x'.repeat(500) });
});
