/** The loop over its real parts: a scripted backend on TCP, a target on HTTP. */
import { FailPoints } from '@onward/wire/fail-points';
import { describe, expect, onTestFinished, test } from 'vitest';
import type { Rest } from '../src/conversation.js';
import { drive } from '../src/drive.js';
import { createPerform } from '../src/perform.js';
import { internal, isRenewal, refused, rests, type Script, SECRET } from './backend.js';
import { newWakeUp, startParts, startTargets } from './parts.js';
import { startTarget } from './target.js';

const CREATE = 'automation.runtime.attempt.create';
const EXECUTE = 'automation.runtime.action.execute';
const UPDATE = 'automation.runtime.attempt.update';
const PREPARE = 'automation.runtime.run.prepare';
const GET_PLAN = 'automation.runtime.plan.get';
const ADVANCE = 'automation.runtime.run.advance';
const NOTIFY = 'automation.runtime.run.notify-failed';

async function start(script: Script = {}) {
  const target = await startTarget();
  onTestFinished(target.close);
  const parts = await startParts(script);
  const perform = createPerform({
    allow: target.allow,
    cut: new AbortController().signal,
    targets: startTargets(),
    failPoints: new FailPoints(),
    secret: SECRET,
  });
  const driver = { backend: parts.conversation, perform, stopping: new AbortController().signal };
  return { ...parts, target, run: (wakeUp = newWakeUp()): Promise<Rest> => drive(wakeUp, 1, driver) };
}

const aPlan = (hasFailedPort: boolean) => ({ type: 'action', performedBy: 'worker' as const, hasFailedPort, uncertainPolicy: 'resend' as const });

test('begins, performs and records, one frame a step, until the run rests', async () => {
  const { backend, run, target } = await start({
    [EXECUTE]: ({ nth }) => ({
      reply: nth === 2 ? { kind: 'send', request: target.request, target: target.limits } : { kind: 'outcome', outcome: { kind: 'done', output: `of ${nth}` } },
    }),
    [ADVANCE]: ({ nth }) => (nth === 3 ? rests('succeeded') : { reply: { kind: 'advanced', seq: nth + 1, node: `node-${nth + 1}` } }),
  });
  const wakeUp = newWakeUp();
  expect(await run(wakeUp)).toEqual({ kind: 'rests', state: 'succeeded', why: null, dueAt: null });
  expect(backend.frames.map(({ patterns }) => patterns)).toEqual([
    [PREPARE, GET_PLAN, CREATE, EXECUTE],
    [UPDATE, ADVANCE, CREATE, EXECUTE],
    [UPDATE, ADVANCE, CREATE, EXECUTE],
    [UPDATE, ADVANCE, CREATE, EXECUTE],
  ]);
  expect(target.received.map(({ body }) => body)).toEqual([target.request.body]);
  expect(backend.of(UPDATE).map(({ data }) => data)).toEqual([
    { ...wakeUp, epoch: 1, seq: 1, n: 1, outcome: { kind: 'done', output: 'of 1' } },
    { ...wakeUp, epoch: 1, seq: 2, n: 1, outcome: { kind: 'done', output: expect.objectContaining({ status: 200, body: { ok: true } }) } },
    { ...wakeUp, epoch: 1, seq: 3, n: 1, outcome: { kind: 'done', output: 'of 3' } },
  ]);
});

describe('a run that is not to be moved', () => {
  test.each([
    ['comes early', { kind: 'not_due', dueAt: '2026-10-21T07:20:00.000Z', inMs: 1_234 }],
    ['is paused', { kind: 'held' }],
    ['is under another claim', { kind: 'refused', reason: 'stale_claim' }],
    ['rests already', { kind: 'rests', state: 'succeeded', why: null, dueAt: null }],
  ] as const)('because it %s takes one frame, and nothing is performed or held', async (_, reply) => {
    const { backend, leases, run } = await start({ [PREPARE]: () => ({ reply }) });
    expect(await run()).toEqual(reply);
    leases.start();
    expect((await backend.nextRenewal()).frame.runs).toEqual([]);
    expect(backend.work()).toHaveLength(1);
    expect(backend.calls.map(({ pattern }) => pattern)).toEqual([PREPARE]);
  });
});

describe('the notice of a failure', () => {
  test.each([
    ['fails', { code: 'http_permanent' }, 'automation.runtime.run.fail', 'failed'],
    ['is given up', { code: 'timeout' }, 'automation.runtime.run.dead-letter', 'dead_lettered'],
  ] as const)('is asked for when a run %s', async (_, { code }, verb, state) => {
    const { backend, run } = await start({
      [CREATE]: () => ({ reply: { kind: 'attempt', seq: 1, n: 3, node: 'node-1', tally: { failed: 2, uncertain: 0 }, outcome: null } }),
      [EXECUTE]: () => ({ reply: { kind: 'outcome', outcome: { kind: 'failed', failure: { code, message: '' } } } }),
    });
    const wakeUp = newWakeUp();
    expect(await run(wakeUp)).toMatchObject({ kind: 'rests', state });
    expect(backend.of(verb)).toHaveLength(1);
    expect(backend.of(NOTIFY).map(({ data }) => data)).toEqual([{ ...wakeUp, epoch: 1, seq: 1 }]);
  });

  test('that cannot be asked for changes nothing about the rest', async () => {
    const { backend, run } = await start({
      [EXECUTE]: () => ({ reply: { kind: 'outcome', outcome: { kind: 'failed', failure: { code: 'http_permanent', message: '' } } } }),
      [NOTIFY]: () => internal,
    });
    expect(await run()).toMatchObject({ kind: 'rests', state: 'failed' });
    expect(backend.of(NOTIFY)).toHaveLength(1);
  });

  test.each(['succeeded', 'cancelled', 'waiting', 'retrying'] as const)('is not asked for when a run is %s', async (state) => {
    const { backend, run } = await start({ [ADVANCE]: () => rests(state) });
    expect(await run()).toMatchObject({ kind: 'rests', state });
    expect(backend.of(NOTIFY)).toEqual([]);
  });
});

describe('an item that threw at the backend', () => {
  test.each([PREPARE, GET_PLAN, CREATE, EXECUTE, UPDATE, ADVANCE] as const)('throws and lets the lease go: %s', async (pattern) => {
    const { backend, leases, run } = await start({ [pattern]: () => internal });
    await expect(run()).rejects.toMatchObject({ name: 'RpcFault', code: 'internal' });
    leases.start();
    expect(await backend.nextRenewal()).toMatchObject({ frame: { worker: { inFlight: 0 }, runs: [] } });
  });

  test('throws in a later step too, and lets the lease go that was held until then', async () => {
    const wasHeld: number[] = [];
    const { backend, leases, run } = await start({
      [UPDATE]: async () => {
        leases.start();
        wasHeld.push((await backend.nextRenewal()).frame.runs.length);
        return internal;
      },
    });
    await expect(run()).rejects.toMatchObject({ code: 'internal' });
    expect(wasHeld).toEqual([1]);
    expect((await backend.nextRenewal()).frame.runs).toEqual([]);
  });
});

test('a run that is refused in the middle of a step ends the drive, and its lease is let go', async () => {
  const { backend, leases, run } = await start({ [UPDATE]: () => refused('stale_epoch') });
  expect(await run()).toEqual({ kind: 'refused', reason: 'stale_epoch' });
  leases.start();
  expect((await backend.untilFrame(isRenewal)).frame.runs).toEqual([]);
});

test('a failed step that has a way on is left by it, and the run goes on', async () => {
  const { backend, run } = await start({
    [GET_PLAN]: ({ data }) => {
      const versionId = '0190c0de-0000-7000-8000-00000000bbbb';
      return { reply: { kind: 'plan', versionId, ...(data['nodes'] === true && { plan: { versionId, nodes: { 'node-1': aPlan(true) } } }) } };
    },
    [EXECUTE]: () => ({ reply: { kind: 'outcome', outcome: { kind: 'failed', failure: { code: 'http_permanent', message: '' } } } }),
  });
  expect(await run()).toMatchObject({ state: 'succeeded' });
  expect(backend.of(ADVANCE)).toHaveLength(1);
  expect(backend.of('automation.runtime.run.fail')).toEqual([]);
});
