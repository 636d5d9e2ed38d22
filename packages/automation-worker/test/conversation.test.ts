/** Which calls make up a step, and what their answers mean: against a scripted backend on TCP. */
import type { Outcome } from '@onward/contracts/outcome';
import type { PlanNode } from '@onward/contracts/plan';
import { describe, expect, test } from 'vitest';
import type { Conversation, Step } from '../src/conversation.js';
import { isRenewal, type Script, VERSION_ID } from './backend.js';
import { newWakeUp, startParts } from './parts.js';

const GET_PLAN = 'automation.runtime.plan.get';
const CREATE = 'automation.runtime.attempt.create';
const EXECUTE = 'automation.runtime.action.execute';
const UPDATE = 'automation.runtime.attempt.update';
const PREPARE = 'automation.runtime.run.prepare';
const ADVANCE = 'automation.runtime.run.advance';
const WAIT = 'automation.runtime.run.wait';
const RETRY = 'automation.runtime.run.retry';
const DEAD_LETTER = 'automation.runtime.run.dead-letter';
const NOTIFY = 'automation.runtime.run.notify-failed';
const REQUEST = { method: 'POST', url: 'http://a.test/', headers: {}, body: null, timeoutMs: 1_000, maxResponseBytes: 1_000, followRedirects: false } as const;

const DONE: Outcome = { kind: 'done', output: null };
const UNCERTAIN: Outcome = { kind: 'uncertain', failure: { code: 'process_died', message: '' } };
const going = new AbortController().signal;
const STOPPED = AbortSignal.abort();
const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/;

async function stepOf(conversation: Conversation, wakeUp = newWakeUp()): Promise<Step> {
  const turn = await conversation.begin(wakeUp, 1);
  if (turn.kind !== 'step') throw new Error(`No step: ${turn.kind}`);
  return turn.step;
}

/** Answers the plan of `versionId`, with its nodes when they are asked for. */
function planOf(versionId: string, nodes: Record<string, PlanNode> = {}): NonNullable<Script[typeof GET_PLAN]> {
  return ({ data }) => ({ reply: { kind: 'plan', versionId, ...(data['nodes'] === true && { plan: { versionId, nodes } }) } });
}
const node = (over: Partial<PlanNode>): PlanNode => ({ type: 'action', performedBy: 'worker', hasFailedPort: false, uncertainPolicy: 'resend', ...over });

describe('beginning a run', () => {
  test('names the hand-out by its number and by an id of its own', async () => {
    const { backend, conversation } = await startParts();
    const wakeUp = newWakeUp();
    await conversation.begin(wakeUp, 3);
    await conversation.begin(wakeUp, 4);
    const asked = backend.of(PREPARE).map(({ data }) => data);
    expect(asked).toEqual([
      { ...wakeUp, callId: 3, handOutId: expect.stringMatching(UUID) },
      { ...wakeUp, callId: 4, handOutId: expect.stringMatching(UUID) },
    ]);
    expect(new Set(asked.map(({ handOutId }) => handOutId)).size).toBe(2);
  });

  test('sent again over another connection is the same hand-out', async () => {
    const { backend, conversation } = await startParts({ frame: () => (backend.frames.length === 1 ? 'cut' : undefined) });
    await conversation.begin(newWakeUp(), 3);
    expect(backend.frames).toHaveLength(2);
    const [first, again] = backend.frames;
    expect(again?.connection).not.toBe(first?.connection);
    expect(again?.frame).toEqual(first?.frame);
  });

  test('gives a step with all that its end will be told by', async () => {
    const { conversation } = await startParts({
      [PREPARE]: () => ({ reply: { kind: 'claimed', epoch: 4, seq: 9, node: 'b', leaseMs: 30_000 } }),
      [GET_PLAN]: planOf(VERSION_ID, { b: node({ action: 'FORWARD_REQUEST' }) }),
      [CREATE]: () => ({ reply: { kind: 'attempt', seq: 9, n: 2, node: 'b', tally: { failed: 1, uncertain: 0 }, outcome: null } }),
    });
    const wakeUp = newWakeUp();
    expect(await stepOf(conversation, wakeUp)).toMatchObject({
      ...wakeUp,
      epoch: 4,
      seq: 9,
      n: 2,
      node: 'b',
      versionId: VERSION_ID,
      tally: { failed: 1, uncertain: 0 },
      plan: { action: 'FORWARD_REQUEST' },
      work: { kind: 'outcome', outcome: DONE },
    });
  });

  test.each([GET_PLAN, CREATE, EXECUTE] as const)('is a rest, and the lease is let go, when the run rests at %s', async (pattern) => {
    const { backend, conversation, leases } = await startParts({ [pattern]: () => ({ reply: { kind: 'rests', state: 'cancelled', why: null, dueAt: null } }) });
    expect(await conversation.begin(newWakeUp(), 1)).toMatchObject({ kind: 'rests', state: 'cancelled' });
    leases.start();
    expect((await backend.nextRenewal()).frame.runs).toEqual([]);
  });
});

describe('the plan', () => {
  test('is asked for once per version', async () => {
    let versionId = VERSION_ID;
    const { backend, conversation } = await startParts({ [GET_PLAN]: (asked) => planOf(versionId)(asked) });
    const whole = () => backend.of(GET_PLAN).filter(({ data }) => data['nodes'] === true);
    const wakeUp = newWakeUp();
    await conversation.begin(wakeUp, 1);
    await conversation.begin(newWakeUp(), 1);
    expect(whole().map(({ data }) => data)).toEqual([{ ...wakeUp, epoch: 1, seq: 1, nodes: true }]);
    versionId = '0190c0de-0000-7000-8000-00000000bbbb';
    await conversation.begin(newWakeUp(), 1);
    await conversation.begin(newWakeUp(), 1);
    expect(whole()).toHaveLength(2);
  });

  test.each([
    ['refused', { kind: 'refused', reason: 'stale_epoch' }],
    ['of a run that rests', { kind: 'rests', state: 'failed', why: 'context_missing', dueAt: null }],
  ] as const)('that is %s is not kept: the run ends there, its lease is let go, and the next run asks again', async (_, reply) => {
    let isRefused = true;
    const { backend, conversation, leases, plans } = await startParts({
      [GET_PLAN]: (asked) => (isRefused && asked.data['nodes'] === true ? { reply } : planOf(VERSION_ID)(asked)),
    });
    expect(await conversation.begin(newWakeUp(), 1)).toEqual(reply);
    expect(plans.has(VERSION_ID)).toBe(false);
    leases.start();
    expect((await backend.nextRenewal()).frame.runs).toEqual([]);
    isRefused = false;
    expect((await conversation.begin(newWakeUp(), 1)).kind).toBe('step');
    expect(plans.has(VERSION_ID)).toBe(true);
  });

  test.each([
    ['resend', RETRY],
    ['stop', DEAD_LETTER],
  ] as const)('decides by its policy %s what an uncertain send comes to', async (uncertainPolicy, verb) => {
    const { backend, conversation } = await startParts({ [GET_PLAN]: planOf(VERSION_ID, { 'node-1': node({ uncertainPolicy }) }) });
    await conversation.record(await stepOf(conversation), UNCERTAIN, going);
    expect(backend.work().at(-1)?.patterns).toEqual([UPDATE, verb]);
  });
});

describe('the end of a step', () => {
  test('whose verb the backend judges otherwise is told again with the right verb', async () => {
    const { backend, conversation, leases } = await startParts({
      [RETRY]: () => ({ reply: { kind: 'refused', reason: 'wrong_verb', verb: 'dead-letter' } }),
    });
    const step = await stepOf(conversation);
    expect(await conversation.record(step, UNCERTAIN, going)).toMatchObject({ kind: 'rests', state: 'dead_lettered' });
    expect(backend.frames.slice(1).map(({ patterns }) => patterns)).toEqual([
      [UPDATE, RETRY],
      [UPDATE, DEAD_LETTER],
    ]);
    expect(backend.of(UPDATE).map(({ data }) => data['outcome'])).toEqual([UNCERTAIN, UNCERTAIN]);
    leases.start();
    expect((await backend.nextRenewal()).frame.runs).toEqual([]);
  });

  test('that is judged to go on after all begins the next step, and the lease is kept', async () => {
    const { backend, conversation, leases } = await startParts({
      [RETRY]: () => ({ reply: { kind: 'refused', reason: 'wrong_verb', verb: 'advance' } }),
      [ADVANCE]: () => ({ reply: { kind: 'advanced', seq: 2, node: 'node-2' } }),
    });
    const step = await stepOf(conversation);
    expect(await conversation.record(step, UNCERTAIN, going)).toMatchObject({ kind: 'step', step: { seq: 2, node: 'node-2' } });
    expect(backend.work().at(-1)?.patterns).toEqual([UPDATE, ADVANCE, CREATE, EXECUTE]);
    leases.start();
    expect((await backend.untilFrame(isRenewal)).frame.runs).toHaveLength(1);
  });

  test.each([
    ['the same verb', 'retry', 1],
    ['yet another one', 'dead-letter', 2],
  ] as const)('is not told for ever when the backend asks for %s again', async (_, verb, times) => {
    const wrong = (right: 'retry' | 'dead-letter') => () => ({ reply: { kind: 'refused', reason: 'wrong_verb', verb: right } }) as const;
    const { backend, conversation } = await startParts({ [RETRY]: wrong(verb), [DEAD_LETTER]: wrong('retry') });
    expect(await conversation.record(await stepOf(conversation), UNCERTAIN, going)).toMatchObject({ kind: 'refused', reason: 'wrong_verb' });
    expect(backend.of(UPDATE)).toHaveLength(times);
  });

  test('leaves out epoch and step only where the backend takes them from the answer before', async () => {
    const { backend, conversation } = await startParts({ [ADVANCE]: () => ({ reply: { kind: 'advanced', seq: 2, node: 'node-2' } }) });
    const wakeUp = newWakeUp();
    await conversation.record(await stepOf(conversation, wakeUp), DONE, going);
    const [update, advance, create, execute] = backend.frames[1]?.frame.runs[0]?.items ?? [];
    expect([update?.data, advance?.data]).toMatchObject([
      { epoch: 1, seq: 1 },
      { epoch: 1, seq: 1 },
    ]);
    expect([create?.data, execute?.data]).toEqual([wakeUp, wakeUp]);
  });

  test('in a worker that is stopping gives the run back in the same frame and begins nothing', async () => {
    const { backend, conversation, leases } = await startParts({ [ADVANCE]: () => ({ reply: { kind: 'advanced', seq: 2, node: 'node-2' } }) });
    const wakeUp = newWakeUp();
    const step = await stepOf(conversation, wakeUp);
    expect(await conversation.record(step, DONE, STOPPED)).toMatchObject({ kind: 'rests', state: 'waiting' });
    expect(backend.frames[1]?.patterns).toEqual([UPDATE, ADVANCE, WAIT]);
    expect(backend.of(WAIT).map(({ data }) => data)).toEqual([{ ...wakeUp, release: 'stopping' }]);
    leases.start();
    expect((await backend.nextRenewal()).frame.runs).toEqual([]);
  });

  test('that suspends the run needs no giving back when the worker is stopping', async () => {
    const { backend, conversation } = await startParts();
    await conversation.record(await stepOf(conversation), { kind: 'not_sent', why: 'the worker is stopping' }, STOPPED);
    expect(backend.frames[1]?.patterns).toEqual([UPDATE, WAIT]);
    expect(backend.of(WAIT)[0]?.data).not.toHaveProperty('release');
  });

  test('whose answer lacks an item throws, and the lease is let go', async () => {
    const { backend, conversation, leases } = await startParts({
      frame: (asked) =>
        asked.patterns[0] === UPDATE ? { reply: { v: 1, runs: [{ replies: [{ reply: { kind: 'recorded', verb: 'advance' } }] }] } } : undefined,
    });
    await expect(conversation.record(await stepOf(conversation), DONE, going)).rejects.toThrow('The backend answered nothing');
    leases.start();
    expect((await backend.nextRenewal()).frame.runs).toEqual([]);
  });
});

describe('where the backend has gone on by itself', () => {
  const ATTEMPT = { kind: 'attempt', n: 1, tally: { failed: 0, uncertain: 0 }, outcome: null };
  const OWN = { reply: { kind: 'outcome', outcome: DONE } };
  const SEND = { reply: { kind: 'send', request: REQUEST, target: { origin: 'http://a.test', ratePerSecond: null, maxConcurrent: null, breakerNo: 0 } } };
  const BEGUN = [
    { reply: { kind: 'claimed', epoch: 1, seq: 1, node: 'a', leaseMs: 30_000 } },
    { reply: { kind: 'plan', versionId: VERSION_ID } },
    { reply: { ...ATTEMPT, seq: 1, node: 'a' } },
    OWN,
  ];
  /** The first frame that begins with this pattern is answered so. */
  const answering = (pattern: string, replies: object[], followed: object[]): Script => {
    let isAnswered = false;
    return {
      frame: (asked) => {
        if (isAnswered || asked.patterns[0] !== pattern) return undefined;
        isAnswered = true;
        return { reply: { v: 1, runs: [{ replies, followed }] } as never };
      },
    };
  };

  test('the step in hand is the last one', async () => {
    const later = [{ reply: { kind: 'advanced', seq: 4, node: 'd' } }, { reply: { ...ATTEMPT, seq: 4, node: 'd' } }, SEND];
    const { conversation } = await startParts(answering(PREPARE, BEGUN, later));
    expect(await stepOf(conversation)).toMatchObject({ seq: 4, node: 'd', work: { kind: 'send' } });
  });

  test('the plan is asked for at the last step', async () => {
    const later = [{ reply: { kind: 'advanced', seq: 4, node: 'd' } }, { reply: { ...ATTEMPT, seq: 4, node: 'd' } }, OWN];
    const { backend, conversation } = await startParts(answering(PREPARE, BEGUN, later));
    await stepOf(conversation);
    expect(backend.of(GET_PLAN).map(({ data }) => data)).toMatchObject([{ seq: 4, nodes: true }]);
  });

  test('a run that came to its end there rests, its lease is let go, and no plan is asked for', async () => {
    const later = [{ reply: { kind: 'rests', state: 'succeeded', why: null, dueAt: null } }];
    const { backend, conversation, leases } = await startParts(answering(PREPARE, BEGUN, later));
    expect(await conversation.begin(newWakeUp(), 1)).toMatchObject({ kind: 'rests', state: 'succeeded' });
    expect(backend.of(GET_PLAN)).toEqual([]);
    leases.start();
    expect((await backend.nextRenewal()).frame.runs).toEqual([]);
  });

  test('a run that failed there is notified of, under the step its frame began with', async () => {
    const later = [{ reply: { kind: 'rests', state: 'failed', why: 'no way out', dueAt: null } }];
    const recorded = [
      { reply: { kind: 'recorded', verb: 'advance' } },
      { reply: { kind: 'advanced', seq: 2, node: 'b' } },
      { reply: { ...ATTEMPT, seq: 2, node: 'b' } },
      OWN,
    ];
    const { backend, conversation } = await startParts(answering(UPDATE, recorded, later));
    const step = await stepOf(conversation);
    expect(await conversation.record(step, DONE, going)).toMatchObject({ kind: 'rests', state: 'failed' });
    expect(backend.of(NOTIFY).map(({ data }) => data)).toMatchObject([{ runId: step.runId, seq: step.seq }]);
  });

  test('an item that threw there is thrown', async () => {
    const later = [
      { reply: { kind: 'advanced', seq: 2, node: 'b' } },
      { reply: { ...ATTEMPT, seq: 2, node: 'b' } },
      { error: { code: 'internal', detail: 'a fault' } },
    ];
    const { conversation } = await startParts(answering(PREPARE, BEGUN, later));
    await expect(conversation.begin(newWakeUp(), 1)).rejects.toThrow('a fault');
  });
});

test('a run that has gone on to another step than the one in hand is no rest: the hand-out is to begin anew', async () => {
  const { conversation, backend, leases } = await startParts({ [UPDATE]: () => ({ reply: { kind: 'refused', reason: 'stale_seq' } }) });
  await expect(conversation.record(await stepOf(conversation), DONE, going)).rejects.toThrow('another step');
  leases.start();
  expect((await backend.nextRenewal()).frame.runs).toEqual([]);
});
