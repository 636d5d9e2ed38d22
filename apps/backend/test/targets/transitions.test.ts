import { FRAME_PATTERN } from '@onward/contracts/frame';
import type { Outcome } from '@onward/contracts/outcome';
import type { Verb } from '@onward/contracts/patterns';
import type { TargetReport } from '@onward/contracts/targets';
import { randomUUID } from 'node:crypto';
import { Redis } from 'ioredis';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { change, rows, transact } from '../../src/database/sql.js';
import { HOLD_WOKEN } from '../../src/sweeper/hold-runs.js';
import { sweepTargets } from '../../src/sweeper/sweep-targets.js';
import { parkedThatMayGo } from '../../src/targets/parked.js';
import { pickProbes } from '../../src/targets/pick-probes.js';
import { placesAhead, releaseParked } from '../../src/targets/release-parked.js';
import { type BackendForTest, backendForTest } from '../backend-for-test.js';
import { HandWorker, startRun } from '../runtime/hand-worker.js';
import { BY_HAND, latch, queuesOf, sweeperOf } from '../sweeper/sweeper-bench.js';
import { answered, beginRun, beginRuns, type Begun, blocked, callingAt, done, newOrigin, operate, parkMore, runsOf, targetAt } from './target-bench.js';

const RESET_MS = 20_000;

let onward: BackendForTest;
let worker: HandWorker;
beforeAll(async () => {
  onward = await backendForTest({ ...BY_HAND, AUTOMATIONS_LEASE_MS: '3600000', AUTOMATIONS_BREAKER_RESET_MS: String(RESET_MS) });
  worker = new HandWorker(onward);
  await sweeperOf(onward.backend).sweepFully();
});
afterAll(async () => {
  worker?.close();
  await onward?.close();
});

const sweep = () => sweepTargets(onward.source, queuesOf(onward.backend));
/** Records what a send came to and closes the step. */
const record = ({ at }: Pick<Begun, 'at'>, outcome: Outcome, verb: Verb, n = 1) => worker.frame(['update', { ...at, n, outcome }], [verb, at]);
const report = (origin: string, more: Partial<TargetReport> = {}) =>
  worker.client.call(FRAME_PATTERN, {
    v: 1,
    worker: {
      workerId: randomUUID(),
      inFlight: 0,
      targets: [{ origin, breaker: 'open', breakerNo: 0, probesInMs: 12_000, sending: 0, queued: 0, ...more }],
    },
    runs: [],
  });
/** The block of a target ends at this moment, and with it the time of those that wait for it; no sweeper has seen it yet. */
async function endBlock(origin: string): Promise<void> {
  await change(onward.source, `UPDATE targets SET blocked_until = date_trunc('milliseconds', onward_now()) WHERE origin = $1`, [origin]);
  await change(onward.source, `UPDATE runs SET due_at = blocked_until FROM targets WHERE origin = $1 AND wait_key = 'target:' || origin`, [origin]);
}
/** Ms from now until the target is tried again, as far as a busy machine can tell: at most `ms`, and not much less. */
const about = (inMs: number | null, ms: number) => {
  expect(inMs).toBeLessThanOrEqual(ms + 1);
  expect(inMs).toBeGreaterThan(ms - 15_000);
};

/** Claims a run and opens its step, short of executing it. */
async function claim(runId: string) {
  const ref = await worker.wakeUp(runId);
  const [prepared] = await worker.frame(['prepare', { ...ref, callId: 1 }], ['plan', ref], ['create', ref]);
  return { ...ref, epoch: Number(prepared?.['epoch']), seq: Number(prepared?.['seq']) };
}

/** Another run has been sent to the target before it opened. Then it is open, and `howMany` runs are parked at it. */
async function openWith(howMany: number) {
  const origin = newOrigin();
  const workflowId = await callingAt(onward, origin);
  const sent = await beginRun(onward, worker, workflowId);
  await operate(onward, origin, 'open');
  const parked = await beginRuns(onward, worker, workflowId, howMany);
  for (const { last } of parked) expect(last).toMatchObject({ kind: 'rests', state: 'waiting' });
  return { origin, workflowId, sent, parked };
}

/** Lets the block pass and has the oldest parked run begin as the probe. */
async function probing(howMany: number) {
  const made = await openWith(howMany);
  await onward.clock.advance('PT21S');
  const probeId = (await targetAt(onward, made.origin)).probeRunId ?? '';
  expect(probeId).toBe(made.parked[0]?.runId);
  const { at, replies } = await worker.begin(probeId);
  expect(replies.at(-1)).toMatchObject({ kind: 'send' });
  return { ...made, probe: { runId: probeId, at } };
}

describe('what opens a closed target', () => {
  test('F37: an answer with Retry-After spends one attempt and holds back other runs to that target, and no other target', async () => {
    const [origin, other] = [newOrigin(), newOrigin()];
    const workflowId = await callingAt(onward, origin);
    const first = await beginRun(onward, worker, workflowId);
    await record(first, answered(429, 120_000), 'retry');
    expect((await worker.attempts(first.runId)).filter(({ node }) => node === 'call')).toMatchObject([{ n: 1, status: 'failed' }]);
    const target = await targetAt(onward, origin);
    expect(target).toMatchObject({ state: 'open', why: `answered 429, asked to wait until ${target.blockedUntil?.toISOString()}` });
    const next = await beginRun(onward, worker, workflowId);
    expect(next.last).toMatchObject({ kind: 'rests', state: 'waiting', dueAt: target.blockedUntil?.toISOString() });
    expect((await beginRun(onward, worker, await callingAt(onward, other))).last).toMatchObject({ kind: 'send' });
  });

  test.each<[what: string, status: number, retryAfterMs: number | undefined, inMs: number | null]>([
    ['429 and 120 s', 429, 120_000, 120_000],
    ['503 and 40 min', 503, 2_400_000, 2_400_000],
    ['429 and a date long after all of us', 429, 99_999_999_999_000, 86_400_000],
    ['429 and a date that is past', 429, 0, null],
    ['429 and nothing, or what cannot be read', 429, undefined, null],
    ['500 and 120 s, which is no wish of the target', 500, 120_000, null],
    ['408 and 120 s', 408, 120_000, null],
  ])('F37: %s', async (_what, status, retryAfterMs, inMs) => {
    const origin = newOrigin();
    await record(await beginRun(onward, worker, await callingAt(onward, origin)), answered(status, retryAfterMs), 'retry');
    const target = await targetAt(onward, origin);
    expect(target.state).toBe(inMs === null ? 'closed' : 'open');
    if (inMs !== null) about(target.inMs, inMs);
  });

  test('F37: of two wishes the later one holds', async () => {
    const origin = newOrigin();
    const runs = await beginRuns(onward, worker, await callingAt(onward, origin), 3);
    for (const [nth, wish] of [60_000, 600_000, 120_000].entries()) await record(runs[nth] as Begun, answered(503, wish), 'retry');
    about((await targetAt(onward, origin)).inMs, 600_000);
  });

  test('a breaker that sent a request back opens it, under the number that holds now only', async () => {
    const origin = newOrigin();
    const workflowId = await callingAt(onward, origin);
    const [stale, current] = await beginRuns(onward, worker, workflowId, 2);
    await operate(onward, origin, 'close'); // breakerNo 1
    await record(stale as Begun, blocked(origin, 'breaker', 9_000, 0), 'wait');
    expect(await targetAt(onward, origin)).toMatchObject({ state: 'closed', breakerNo: 1 });
    await record(current as Begun, blocked(origin, 'breaker', 9_000, 1), 'wait');
    const target = await targetAt(onward, origin);
    expect(target).toMatchObject({ state: 'open', why: 'not sent: breaker' });
    about(target.inMs, 9_000);
    expect((await worker.run(current?.runId ?? '')).dueAt).toEqual(target.blockedUntil);
  });

  test('a renewal that reports an open breaker opens it; a stale number, or a breaker that is not open, changes nothing', async () => {
    const origin = newOrigin();
    await operate(onward, origin, 'close'); // breakerNo 1
    await report(origin, { breakerNo: 0 });
    await report(origin, { breakerNo: 2 });
    await report(origin, { breakerNo: 1, breaker: 'half_open' });
    expect(await targetAt(onward, origin)).toMatchObject({ state: 'closed' });
    await report(origin, { breakerNo: 1 });
    const target = await targetAt(onward, origin);
    expect(target.state).toBe('open');
    about(target.inMs, 12_000);
    await report(origin, { breakerNo: 1, probesInMs: 3_600_000 });
    expect((await targetAt(onward, origin)).blockedUntil).toEqual(target.blockedUntil);
    expect((await beginRun(onward, worker, await callingAt(onward, origin))).last).toMatchObject({ kind: 'rests', state: 'waiting' });
  });

  test('a plain failure opens nothing: that is for the breakers', async () => {
    const origin = newOrigin();
    await record(await beginRun(onward, worker, await callingAt(onward, origin)), answered(500), 'retry');
    expect(await targetAt(onward, origin)).toMatchObject({ state: 'closed' });
  });
});

describe('the probe', () => {
  test('when the time comes one run alone is woken, the one that waits longest, and the others’ time moves on', async () => {
    const { origin, workflowId, parked } = await openWith(4);
    await onward.clock.advance('PT21S');
    const target = await targetAt(onward, origin);
    expect(target).toMatchObject({ state: 'half_open', probeRunId: parked[0]?.runId });
    about(target.inMs, 90_000);
    const [, probe, ...rest] = await runsOf(onward, workflowId);
    expect(probe).toMatchObject({ state: 'waiting', resolution: { kind: 'not_sent' } });
    expect(probe?.wokenAt).not.toBeNull();
    expect(rest).toHaveLength(3);
    for (const run of rest) expect(run).toMatchObject({ state: 'waiting', resolution: null, wokenAt: null, dueAt: target.blockedUntil });
    // Who comes now waits too, until the probe has come back.
    expect((await beginRun(onward, worker, workflowId)).last).toMatchObject({ kind: 'rests', state: 'waiting' });
  });

  test.each<[what: string, outcome: Outcome, verb: Verb]>([
    ['succeeds', done, 'advance'],
    ['is answered 404', answered(404), 'fail'],
    ['is answered 408', answered(408), 'retry'],
    ['is redirected', { kind: 'failed', failure: { code: 'redirect_refused', message: 'x', detail: { status: 301 } } }, 'fail'],
  ])('a probe that %s closes its target under a new breaker number', async (_what, outcome, verb) => {
    const { origin, probe } = await probing(1);
    await record(probe, outcome, verb);
    expect(await targetAt(onward, origin)).toMatchObject({ state: 'closed', why: null, probeRunId: null, blockedUntil: null, breakerNo: 1 });
    // What the workers’ breakers found before is stale.
    await report(origin, { breakerNo: 0 });
    expect(await targetAt(onward, origin)).toMatchObject({ state: 'closed' });
  });

  test.each<[what: string, outcome: Outcome, verb: Verb, inMs: number]>([
    ['is answered 500', answered(500), 'retry', RESET_MS],
    ['is answered 429', answered(429), 'retry', RESET_MS],
    ['is answered 503 with a wish', answered(503, 300_000), 'retry', 300_000],
    ['is answered 503 with a short wish', answered(503, 1_000), 'retry', RESET_MS],
    ['times out', { kind: 'failed', failure: { code: 'timeout', message: 'x', detail: { mayHaveBeenSent: true, status: 200 } } }, 'retry', RESET_MS],
    ['cannot connect', { kind: 'failed', failure: { code: 'network', message: 'x' } }, 'retry', RESET_MS],
    ['is sent back by a breaker', blocked('', 'breaker', 7_000), 'wait', 7_000],
    ['is sent back by the rate', blocked('', 'rate', 2_000), 'wait', 2_000],
  ])('a probe that %s opens its target again', async (_what, outcome, verb, inMs) => {
    const { origin, probe, workflowId } = await probing(2);
    await record(probe, 'blocked' in outcome && outcome.blocked ? { ...outcome, blocked: { ...outcome.blocked, origin } } : outcome, verb);
    const target = await targetAt(onward, origin);
    expect(target).toMatchObject({ state: 'open', probeRunId: null, breakerNo: 0 });
    about(target.inMs, inMs);
    await sweep();
    expect((await runsOf(onward, workflowId)).filter(({ resolution }) => resolution !== null)).toEqual([]);
  });

  test.each<[what: string, outcome: Outcome, verb: Verb]>([
    ['that was cut', { kind: 'uncertain', failure: { code: 'process_died', message: 'cut' } }, 'retry'],
    ['whose address is not allowed', { kind: 'failed', failure: { code: 'address_not_allowed', message: 'x' } }, 'fail'],
    ['whose request cannot be sent', { kind: 'failed', failure: { code: 'request_invalid', message: 'x' } }, 'fail'],
  ])('a probe %s says nothing of its target: the next one goes at the next sweep', async (_what, outcome, verb) => {
    const { origin, probe, parked } = await probing(2);
    await record(probe, outcome, verb);
    expect(await targetAt(onward, origin)).toMatchObject({ state: 'open', probeRunId: null });
    await sweep();
    expect(await targetAt(onward, origin)).toMatchObject({ state: 'half_open', probeRunId: parked[1]?.runId });
  });

  test('a probe that is cancelled before it is taken up is followed by the next at the next sweep', async () => {
    const { origin, parked } = await openWith(2);
    await onward.clock.advance('PT21S');
    expect(await targetAt(onward, origin)).toMatchObject({ state: 'half_open', probeRunId: parked[0]?.runId });
    await onward.api('POST', `/runs/${parked[0]?.runId}/cancel`);
    await sweep();
    expect(await targetAt(onward, origin)).toMatchObject({ state: 'half_open', probeRunId: parked[1]?.runId });
  });

  test('a probe that was not sent goes out when it is taken up again', async () => {
    const { origin, probe } = await probing(1);
    await record(probe, { kind: 'not_sent', why: 'stopping' }, 'wait');
    expect(await targetAt(onward, origin)).toMatchObject({ state: 'half_open', probeRunId: probe.runId });
    expect((await worker.begin(probe.runId)).replies.at(-1)).toMatchObject({ kind: 'send' });
  });

  test('nobody else’s outcome closes it', async () => {
    const { origin, sent } = await probing(1);
    await record(sent, done, 'advance');
    expect(await targetAt(onward, origin)).toMatchObject({ state: 'half_open' });
  });

  test('a probe closes only the target it was sent to', async () => {
    const { origin, probe } = await probing(1);
    const elsewhere = newOrigin();
    const other = await beginRun(onward, worker, await callingAt(onward, elsewhere));
    await change(onward.source, `UPDATE targets SET probe_run_id = $2 WHERE origin = $1`, [origin, other.runId]);
    await record(other, done, 'advance');
    expect(await targetAt(onward, origin)).toMatchObject({ state: 'half_open' });
    await change(onward.source, `UPDATE targets SET probe_run_id = $2 WHERE origin = $1`, [origin, probe.runId]);
  });

  test('a probe that never comes back is replaced, and is parked like anybody else when it comes late', async () => {
    const { origin, parked } = await openWith(2);
    await onward.clock.advance('PT21S');
    const late = await claim(parked[0]?.runId ?? '');
    await onward.clock.advance('PT89S');
    expect(await targetAt(onward, origin)).toMatchObject({ probeRunId: parked[0]?.runId });
    await onward.clock.advance('PT2S');
    expect(await targetAt(onward, origin)).toMatchObject({ state: 'half_open', probeRunId: parked[1]?.runId });
    expect(await worker.call('execute', late)).toMatchObject({ kind: 'rests', state: 'waiting' });
    expect((await worker.begin(parked[1]?.runId ?? '')).replies.at(-1)).toMatchObject({ kind: 'send' });
  });

  test('a probe that has not been taken up yet, for the queue before it is long, is not replaced, and keeps the time since which it is due', async () => {
    const { origin, workflowId, parked } = await openWith(2);
    const dueAt = (await targetAt(onward, origin)).blockedUntil;
    await onward.clock.advance('PT21S');
    await onward.clock.advance('PT91S');
    const target = await targetAt(onward, origin);
    expect(target).toMatchObject({ state: 'half_open', probeRunId: parked[0]?.runId });
    about(target.inMs, 90_000);
    const [, probe, other] = await runsOf(onward, workflowId);
    expect(probe?.dueAt).toEqual(dueAt);
    expect(other).toMatchObject({ resolution: null });
    expect((await worker.begin(parked[0]?.runId ?? '')).replies.at(-1)).toMatchObject({ kind: 'send' });
  });

  test('a probe held by the pause of its workflow is replaced', async () => {
    const { origin, workflowId } = await openWith(1);
    const [other] = await beginRuns(onward, worker, await callingAt(onward, origin), 1);
    await onward.clock.advance('PT21S');
    await onward.api('POST', `/workflows/${workflowId}/pause`);
    await onward.clock.advance('PT91S');
    expect(await targetAt(onward, origin)).toMatchObject({ state: 'half_open', probeRunId: other?.runId });
  });

  test('a probe that comes after its time goes all the same while no other was picked, and has its time anew', async () => {
    const { origin, parked } = await openWith(2);
    await onward.clock.advance('PT21S');
    const late = await claim(parked[0]?.runId ?? '');
    await change(onward.source, `UPDATE targets SET blocked_until = onward_now() - interval '1 second' WHERE origin = $1`, [origin]);
    expect(await worker.call('execute', late)).toMatchObject({ kind: 'send' });
    const target = await targetAt(onward, origin);
    expect(target).toMatchObject({ state: 'half_open', probeRunId: parked[0]?.runId });
    about(target.inMs, 90_000);
  });

  test('where nothing is parked the next run that comes probes, and the one after it is parked', async () => {
    const { origin, workflowId } = await openWith(0);
    await onward.clock.advance('PT21S');
    expect(await targetAt(onward, origin)).toMatchObject({ state: 'open' });
    const [first, second] = await beginRuns(onward, worker, workflowId, 2);
    expect(first?.last).toMatchObject({ kind: 'send' });
    expect(second?.last).toMatchObject({ kind: 'rests', state: 'waiting' });
    expect(await targetAt(onward, origin)).toMatchObject({ state: 'half_open', probeRunId: first?.runId });
    expect((await runsOf(onward, workflowId)).at(-1)?.dueAt).toEqual((await targetAt(onward, origin)).blockedUntil);
  });

  test('a run that comes while others wait longer does not probe before them', async () => {
    const { origin, workflowId, parked } = await openWith(1);
    await endBlock(origin);
    expect((await beginRun(onward, worker, workflowId)).last).toMatchObject({ kind: 'rests', state: 'waiting' });
    await sweep();
    expect(await targetAt(onward, origin)).toMatchObject({ probeRunId: parked[0]?.runId });
  });

  test('of 20 runs that come at the very moment one probes, and 19 are parked', async () => {
    const { origin, workflowId } = await openWith(0);
    const ready = await Promise.all(Array.from({ length: 20 }, async () => worker.wakeUp((await startRun(onward, workflowId)).runId)));
    const begun = await Promise.all(
      ready.map(async (ref) => {
        const [prepared] = await worker.frame(['prepare', { ...ref, callId: 1 }], ['plan', ref], ['create', ref]);
        return { ...ref, epoch: Number(prepared?.['epoch']), seq: Number(prepared?.['seq']) };
      }),
    );
    await endBlock(origin);
    const kinds = (await Promise.all(begun.map((at) => worker.call('execute', at)))).map(({ kind }) => kind);
    expect(kinds.filter((kind) => kind === 'send')).toHaveLength(1);
    expect(kinds.filter((kind) => kind === 'rests')).toHaveLength(19);
    expect((await targetAt(onward, origin)).probeRunId).toBe(begun[kinds.indexOf('send')]?.runId);
  });

  test('two sweepers at once pick one probe, and neither waits for the other', async () => {
    const { origin, workflowId } = await openWith(3);
    await endBlock(origin);
    const [taken, letCommit] = [latch(), latch()];
    const slow = transact(onward.source, async (tx) => {
      expect((await pickProbes(tx)).count).toBe(1);
      taken.open();
      await letCommit.passed;
    });
    await taken.passed;
    expect((await transact(onward.source, (tx) => pickProbes(tx))).count).toBe(0);
    letCommit.open();
    await slow;
    expect((await runsOf(onward, workflowId)).filter(({ resolution }) => resolution !== null)).toHaveLength(1);
  });
});

describe('letting go', () => {
  test('after the probe’s success the rest goes on exactly one interval apart, whatever the number of sweepers', async () => {
    const { origin, workflowId, probe, parked } = await probing(2);
    await onward.api('PATCH', `/targets/${(await targetAt(onward, origin)).id}`, { ratePerSecond: 8 });
    await parkMore(onward, parked[1]?.runId ?? '', 99);
    await record(probe, done, 'advance');
    const [taken, letCommit] = [latch(), latch()];
    const slow = transact(onward.source, async (tx) => {
      expect((await releaseParked(tx)).count).toBe(40);
      taken.open();
      await letCommit.passed;
    });
    await taken.passed;
    expect((await transact(onward.source, (tx) => releaseParked(tx))).count).toBe(0);
    letCommit.open();
    await slow;
    const goingOn = async () => (await runsOf(onward, workflowId)).filter(({ state, resolution }) => state === 'waiting' && resolution !== null);
    expect(await goingOn()).toHaveLength(40);
    for (let passes = 0; passes < 8; passes += 1) {
      await onward.clock.advance('PT2S');
      await Promise.all([sweep(), sweep()]);
    }
    const going = await goingOn();
    expect(going).toHaveLength(100);
    expect(new Set(going.map(({ claimId }) => claimId)).size).toBe(100);
    const times = going.map(({ dueAt }) => dueAt?.getTime() ?? 0).sort((a, b) => a - b);
    expect(new Set(times.slice(1).map((time, nth) => time - (times[nth] ?? 0)))).toEqual(new Set([125]));
  });

  test('each that is let go is told to the queue, and one whose telling was lost is told of again', async () => {
    const { origin, workflowId } = await openWith(1);
    await operate(onward, origin, 'close');
    await sweep();
    const [, run] = await runsOf(onward, workflowId);
    expect(run?.wokenAt).not.toBeNull();
    await change(onward.source, `UPDATE runs SET woken_at = clock_timestamp() - interval '1 minute', due_at = onward_now() WHERE id = $1`, [run?.id]);
    const valkey = new Redis(onward.valkeyUrl);
    await valkey.flushdb();
    valkey.disconnect();
    await sweeperOf(onward.backend).sweepFully();
    const [, told] = await runsOf(onward, workflowId);
    expect(Date.now() - (told?.wokenAt?.getTime() ?? 0)).toBeLessThan(50_000);
    expect(told?.claimId).toBe(run?.claimId);
  });

  test('what the workers held back goes on at the target’s pace, and who comes new is not parked behind it', async () => {
    const origin = newOrigin();
    const workflowId = await callingAt(onward, origin);
    await onward.api('POST', '/targets', { origin, ratePerSecond: 0.5 });
    const sent = await beginRuns(onward, worker, workflowId, 4);
    for (const run of sent) await record(run, blocked(origin, 'busy', 500), 'wait');
    await sweep();
    await sweep();
    const goingOn = (await runsOf(onward, workflowId)).filter(({ resolution }) => resolution !== null);
    expect(goingOn).toHaveLength(3);
    expect((goingOn[2]?.dueAt?.getTime() ?? 0) - (goingOn[0]?.dueAt?.getTime() ?? 0)).toBe(4_000);
    expect((await beginRun(onward, worker, workflowId)).last).toMatchObject({ kind: 'send' });
  });

  test('what a worker holds back for longer, at a target that is well, is let go when its time comes and not before', async () => {
    const origin = newOrigin();
    const workflowId = await callingAt(onward, origin);
    const run = await beginRun(onward, worker, workflowId);
    await onward.clock.advance('PT10S');
    await record(run, blocked(origin, 'rate', 100_000), 'wait');
    await sweep();
    expect((await runsOf(onward, workflowId))[0]).toMatchObject({ state: 'waiting', resolution: null });
    await onward.clock.advance('PT96S');
    expect((await runsOf(onward, workflowId))[0]).toMatchObject({ state: 'waiting', resolution: { kind: 'not_sent' } });
  });

  test.each<[what: string, close: (made: Awaited<ReturnType<typeof probing>>) => Promise<unknown>]>([
    ['its probe', ({ probe }) => record(probe, done, 'advance')],
    ['an operator', ({ origin }) => operate(onward, origin, 'close')],
  ])('when %s closes a target, what waited for the end of its block goes now', async (_who, close) => {
    const made = await probing(2);
    const [, , waiting] = await runsOf(onward, made.workflowId);
    expect(waiting).toMatchObject({ resolution: null, dueAt: (await targetAt(onward, made.origin)).blockedUntil });
    await close(made);
    await sweep();
    expect((await runsOf(onward, made.workflowId))[2]).toMatchObject({ resolution: { kind: 'not_sent', why: 'the target is free again' } });
  });

  test('of more targets than one batch locks, every one is looked at, also behind those where nothing can be done', async () => {
    const origins = Array.from({ length: 103 }, () => newOrigin());
    const workflowId = await callingAt(onward, origins[0] ?? '');
    const [first] = await beginRuns(onward, worker, workflowId, 1);
    await record(first as Begun, blocked(origins[0] ?? '', 'busy', 0), 'wait');
    await parkMore(onward, first?.runId ?? '', 103);
    const [, ...more] = await runsOf(onward, workflowId);
    for (const [nth, origin] of origins.entries())
      await change(onward.source, 'UPDATE runs SET wait_key = $2 WHERE id = $1', [more[nth]?.id, `target:${origin}`]);
    const over = `UPDATE targets SET state = 'open', blocked_until = onward_now() WHERE origin = ANY ($1)`;
    // Those whose runs are parked at nothing of theirs come first: over, and nobody there to probe.
    await change(
      onward.source,
      `INSERT INTO targets (id, origin) SELECT ('00000000-0000-0000-0000-' || lpad(nth::text, 12, '0'))::uuid, 'http://idle' || nth FROM generate_series(1, 150) AS nth`,
    );
    await change(onward.source, `INSERT INTO targets (id, origin) SELECT gen_random_uuid(), unnest($1::text[]) ON CONFLICT DO NOTHING`, [origins]);
    await change(onward.source, over, [[...origins, ...Array.from({ length: 150 }, (_, nth) => `http://idle${nth + 1}`)]]);
    await sweep();
    const picked = await rows(onward.source, `SELECT 1 FROM targets WHERE origin = ANY ($1) AND state = 'half_open'`, [origins]);
    expect(picked).toHaveLength(103);
    await change(onward.source, `UPDATE targets SET state = 'closed', blocked_until = NULL, probe_run_id = NULL WHERE origin = ANY ($1)`, [origins]);
    await change(onward.source, `UPDATE runs SET resolution = NULL WHERE workflow_id = $1`, [workflowId]);
    await sweep();
    expect((await runsOf(onward, workflowId)).filter(({ resolution }) => resolution === null)).toEqual([]);
    await change(onward.source, `DELETE FROM targets WHERE origin LIKE 'http://idle%'`);
  });

  test.each<[what: string, lastGivenMs: number | null, rate: number, first: number | null, count: number]>([
    ['none was given', null, 20, 1_000_000, 100],
    ['the last one is long past', 3, 20, 1_000_000, 100],
    ['the last one is now', 1_000_000, 20, 1_000_050, 99],
    ['the last one lies at the end of what is planned', 1_004_950, 20, null, 0],
    ['the last one lies an interval before that end', 1_004_900, 20, 1_004_950, 1],
    ['an interval is longer than what is planned', null, 0.01, 1_000_000, 1],
    ['an interval is longer than what is planned and the last one is now', 1_000_000, 0.01, null, 0],
    ['the rate is very high', null, 10_000, 1_000_000, 2_000],
  ])('the places ahead, when %s', (_what, lastGivenMs, rate, first, count) => {
    const places = placesAhead(1_000_000, lastGivenMs, rate);
    expect([places[0] ?? null, places.length]).toEqual([first, count]);
    expect(places.every((place) => place < 1_005_000)).toBe(true);
  });
});

describe('what an operator says', () => {
  test('a pause has no end of its own: no time is due, no outcome and no report changes it, and only closing ends it', async () => {
    const { origin, workflowId, sent } = await openWith(1);
    await operate(onward, origin, 'pause');
    const [, parked] = await runsOf(onward, workflowId);
    expect(parked).toMatchObject({ state: 'waiting', dueAt: null, wokenAt: null });
    expect((await onward.api<{ why: string }>('GET', `/runs/${parked?.id}`)).body.why).toBe(`blocked by ${origin} until an operator closes it`);
    expect((await beginRun(onward, worker, workflowId)).last).toMatchObject({ kind: 'rests', state: 'waiting', dueAt: null });
    await record(sent, answered(503, 60_000), 'retry');
    await report(origin);
    await onward.clock.advance('P30D');
    expect(await targetAt(onward, origin)).toMatchObject({ state: 'paused', blockedUntil: null, probeRunId: null, breakerNo: 0 });
    const opened = await onward.api('POST', `/targets/${(await targetAt(onward, origin)).id}/open`);
    expect(opened.status).toBe(409);
    await operate(onward, origin, 'close');
    expect(await targetAt(onward, origin)).toMatchObject({ state: 'closed', breakerNo: 1, why: null });
    await sweep();
    const waiting = (await runsOf(onward, workflowId)).filter(({ waitReason }) => waitReason === 'target');
    expect(waiting).toHaveLength(2);
    for (const run of waiting) expect(run).toMatchObject({ resolution: { kind: 'not_sent' } });
  });

  test('a pause while a probe is out holds when the probe comes back', async () => {
    const { origin, probe } = await probing(1);
    await operate(onward, origin, 'pause');
    await record(probe, done, 'advance');
    expect(await targetAt(onward, origin)).toMatchObject({ state: 'paused' });
  });

  test('a close while a probe is out lets everything go, and what the probe found then changes nothing', async () => {
    const { origin, probe } = await probing(1);
    await operate(onward, origin, 'close');
    await record(probe, answered(500), 'retry');
    expect(await targetAt(onward, origin)).toMatchObject({ state: 'closed', breakerNo: 1 });
  });
});

test('the first hand-over of an origin makes its row, and many at once make one', async () => {
  const origin = newOrigin();
  const workflowId = await callingAt(onward, origin);
  const refs = await Promise.all(Array.from({ length: 8 }, async () => startRun(onward, workflowId)));
  const begun = await Promise.all(refs.map(({ runId }) => worker.begin(runId)));
  for (const { replies } of begun) {
    expect(replies.at(-1)).toMatchObject({ kind: 'send', target: { origin, ratePerSecond: null, maxConcurrent: null, breakerNo: 0 } });
  }
  expect(await rows(onward.source, 'SELECT state FROM targets WHERE origin = $1', [origin])).toEqual([{ state: 'closed' }]);
});

test('parked runs, those that are due, and the target a run probes are found by their indexes', async () => {
  const plan = (statement: string, parameters: unknown[]) =>
    transact(onward.source, async (tx) => {
      // What an index does not fit at all is scanned even so.
      await rows(tx, 'SET LOCAL enable_seqscan = off');
      const explained = await rows<{ 'QUERY PLAN': string }>(tx, `EXPLAIN ${statement}`, parameters);
      return explained.map((row) => row['QUERY PLAN']).join('\n');
    });
  expect(await plan(HOLD_WOKEN, [10])).toMatch(/runs_woken/);
  expect(await plan(`SELECT runs.id ${parkedThatMayGo('$1')} ORDER BY due_at, runs.id LIMIT 10`, ['target:x'])).toMatch(/runs_parked/);
  expect(await plan('SELECT 1 FROM targets WHERE probe_run_id = $1', [randomUUID()])).toMatch(/targets_probe/);
});
