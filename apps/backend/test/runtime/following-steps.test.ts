import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { createBackend } from '../../src/create-backend.js';
import { rows } from '../../src/database/sql.js';
import { followingItems, frameStepOf, isWorkersTurn, Pace } from '../../src/runtime/following-step.js';
import { type BackendForTest, backendForTest } from '../backend-for-test.js';
import { type HandItem, HandWorker, line, publish, send, startRun, tag, wait } from './hand-worker.js';

/** The steps that the backend goes on with by itself inside a frame. The time for which it may is stopped, so that no slow machine cuts a frame short. */
const SETTINGS = { AUTOMATIONS_SWEEP_INTERVAL_MS: '100000', AUTOMATIONS_LEASE_MS: '60000', EGRESS_ALLOW: '127.0.0.1:9' };
let onward: BackendForTest;
let worker: HandWorker;
const clock = vi.spyOn(performance, 'now').mockReturnValue(1_000);
beforeAll(async () => {
  onward = await backendForTest(SETTINGS);
  worker = new HandWorker(onward);
});
afterAll(async () => {
  clock.mockRestore();
  worker?.close();
  await onward?.close();
});

const kinds = (replies: readonly { kind: string }[] = []) => replies.map(({ kind }) => kind);
const everything = async (runId: string) => [await worker.run(runId), await worker.attempts(runId)];
const doneSeqs = async (runId: string) => (await worker.attempts(runId)).filter(({ status }) => status === 'done').map(({ seq }) => seq);

async function beginItems(runId: string): Promise<HandItem[]> {
  const ref = await worker.wakeUp(runId);
  return [
    ['prepare', { ...ref, callId: 1 }],
    ['plan', ref],
    ['create', ref],
    ['execute', ref],
  ];
}

/** Records what a send came to, and begins the next step. */
function recordItems(at: { runId: string; claimId: string; epoch: number; seq: number }): HandItem[] {
  const ref = { runId: at.runId, claimId: at.claimId };
  return [
    ['update', { ...at, n: 1, outcome: { kind: 'done', output: { status: 200 } } }],
    ['advance', at],
    ['create', ref],
    ['execute', ref],
  ];
}

test("a run whose steps are all the backend's own goes to its end in one frame, each step in a commit of its own", async () => {
  const { runId, contactId } = await startRun(onward, await publish(onward, line(tag('a'), tag('b'), tag('c'))));
  const [answer] = await worker.frameOf(10, await beginItems(runId));
  expect(kinds(answer?.replies)).toEqual(['claimed', 'plan', 'attempt', 'outcome']);
  expect(answer?.followed).toMatchObject([{ kind: 'rests', state: 'succeeded' }]);
  expect(await worker.run(runId)).toMatchObject({ state: 'succeeded', epoch: 1 });
  expect(await doneSeqs(runId)).toEqual([1, 2, 3, 4, 5]);
  const written = await rows<{ stamp: string }>(onward.source, `SELECT xmin AS stamp FROM attempts WHERE run_id = $1 AND node = ANY('{a,b,c}') ORDER BY seq`, [
    runId,
  ]);
  expect(new Set(written.map(({ stamp }) => stamp)).size).toBe(3);
  expect(await rows(onward.source, 'SELECT tag FROM contact_tags WHERE contact_id = $1 ORDER BY tag', [contactId])).toEqual([
    { tag: 'a' },
    { tag: 'b' },
    { tag: 'c' },
  ]);
});

test('no more steps follow than were asked for, and the last is answered behind the items', async () => {
  const { runId } = await startRun(onward, await publish(onward, line(tag('a'), tag('b'), tag('c'), tag('d'))));
  const [answer] = await worker.frameOf(2, await beginItems(runId));
  expect(kinds(answer?.replies)).toEqual(['claimed', 'plan', 'attempt', 'outcome']);
  expect(kinds(answer?.followed)).toEqual(['advanced', 'attempt', 'outcome']);
  expect(answer?.followed?.[1]).toMatchObject({ seq: 4, node: 'c' });
  expect(await worker.run(runId)).toMatchObject({ state: 'running', node: 'c', seq: 4 });
});

test('a frame that asks for nothing to follow is followed by nothing', async () => {
  const { runId } = await startRun(onward, await publish(onward, line(tag('a'), tag('b'))));
  const [answer] = await worker.frameOf(0, await beginItems(runId));
  expect(kinds(answer?.replies)).toEqual(['claimed', 'plan', 'attempt', 'outcome']);
  expect(answer?.followed).toBeUndefined();
  expect(await worker.run(runId)).toMatchObject({ node: 'a' });
});

test("it ends at the step that is the worker's: a request to send", async () => {
  const { runId } = await startRun(onward, await publish(onward, line(tag('a'), send('call'), tag('b'))));
  const [toSend] = await worker.frameOf(10, await beginItems(runId));
  expect(kinds(toSend?.followed)).toEqual(['advanced', 'attempt', 'send']);
});

describe('a step that brings the run to rest', () => {
  /** The transactions that wrote the attempts of these nodes, and last the run. */
  const stampsOf = async (runId: string) => {
    const found = await rows<{ stamp: string }>(
      onward.source,
      `SELECT xmin AS stamp FROM (SELECT xmin, seq FROM attempts WHERE run_id = $1 AND seq > 1 UNION ALL SELECT xmin, 1000 FROM runs WHERE id = $1) AS one ORDER BY seq`,
      [runId],
    );
    return found.map(({ stamp }) => stamp);
  };

  test('is closed in its own checkpoint: the last action, its end and the run are of one transaction', async () => {
    const { runId } = await startRun(onward, await publish(onward, line(tag('a'), tag('b'))));
    const [answer] = await worker.frameOf(10, await beginItems(runId));
    expect(answer?.followed).toMatchObject([{ kind: 'rests', state: 'succeeded' }]);
    const [a, b, finish, run] = await stampsOf(runId);
    expect(a).not.toBe(b);
    expect([finish, run]).toEqual([b, b]);
  });

  test('as the only one, too: claim, action and end', async () => {
    const { runId, contactId } = await startRun(onward, await publish(onward, line(tag('only'))));
    const items = await beginItems(runId);
    const [answer] = await worker.frameOf(1, items);
    expect(kinds(answer?.replies)).toEqual(['claimed', 'plan', 'attempt', 'outcome']);
    expect(answer?.followed).toMatchObject([{ kind: 'rests', state: 'succeeded' }]);
    expect(new Set(await stampsOf(runId)).size).toBe(1);
    expect(await rows(onward.source, 'SELECT tag FROM contact_tags WHERE contact_id = $1', [contactId])).toEqual([{ tag: 'only' }]);
    const state = await everything(runId);
    const [again] = await worker.frameOf(1, items);
    expect(again?.replies).toMatchObject([{ kind: 'rests', state: 'succeeded' }]);
    expect(await everything(runId)).toEqual(state);
  });

  test('a wait, too; the frame sent again changes nothing, and its wake-up goes on behind it', async () => {
    const { runId } = await startRun(onward, await publish(onward, line(tag('a'), wait('rest', '1h'), tag('b'))));
    const items = await beginItems(runId);
    const [answer] = await worker.frameOf(10, items);
    expect(answer?.followed).toMatchObject([{ kind: 'rests', state: 'waiting' }]);
    const [a, rest, run] = await stampsOf(runId);
    expect(a).not.toBe(rest);
    expect(run).toBe(rest);
    const state = await everything(runId);
    expect(state[0]).toMatchObject({ state: 'waiting', node: 'rest', seq: 3 });
    const [again] = await worker.frameOf(10, items);
    expect(again?.replies).toMatchObject([{ kind: 'refused', reason: 'stale_claim' }]);
    expect(await everything(runId)).toEqual(state);

    await rows(onward.source, `UPDATE runs SET due_at = onward_now() - interval '1 second' WHERE id = $1`, [runId]);
    const [ended] = await worker.frameOf(10, await beginItems(runId));
    expect(ended?.followed).toMatchObject([{ kind: 'rests', state: 'succeeded' }]);
    expect(await doneSeqs(runId)).toEqual([1, 2, 3, 4, 5]);
  });

  test('is left to the worker where nothing may follow', async () => {
    const { runId } = await startRun(onward, await publish(onward, line(tag('only'))));
    const [answer] = await worker.frameOf(0, await beginItems(runId));
    expect(answer?.replies.at(-1)).toMatchObject({ kind: 'outcome', outcome: { kind: 'done' } });
    expect(answer?.followed).toBeUndefined();
    expect(await worker.run(runId)).toMatchObject({ state: 'running', node: 'only' });
  });

  test('is closed behind an outcome that the frame records, too; sent again, that is answered with the rest', async () => {
    const { runId } = await startRun(onward, await publish(onward, line(send('call'), tag('last'))));
    const { at } = await worker.begin(runId);
    const items = recordItems(at);
    const [answer] = await worker.frameOf(5, items);
    expect(kinds(answer?.replies)).toEqual(['recorded', 'advanced', 'attempt', 'outcome']);
    expect(answer?.followed).toMatchObject([{ kind: 'rests', state: 'succeeded' }]);
    const [again] = await worker.frameOf(5, items);
    expect(again?.replies).toMatchObject([{ kind: 'recorded' }, { kind: 'rests', state: 'succeeded' }]);
  });

  test('of many runs in one frame, each for itself', async () => {
    const workflowId = await publish(onward, line(tag('a')));
    const runs = [await startRun(onward, workflowId), await startRun(onward, workflowId)];
    const answers = await worker.frameOf(5, ...(await Promise.all(runs.map(({ runId }) => beginItems(runId)))));
    for (const answer of answers) expect(answer.followed).toMatchObject([{ kind: 'rests', state: 'succeeded' }]);
  });
});

test('once one run of a frame waits for its worker no other of it goes on', async () => {
  const called = await startRun(onward, await publish(onward, line(send('call'))));
  const tagged = await startRun(onward, await publish(onward, line(...Array.from({ length: 40 }, (_, nth) => tag(`t${nth}`)))));
  const [answer] = await worker.frameOf(50, await beginItems(called.runId), await beginItems(tagged.runId));
  expect(answer?.replies.at(-1)).toMatchObject({ kind: 'send' });
  expect(await worker.run(tagged.runId)).toMatchObject({ state: 'running' });
});

describe('the frame sent again after the backend had gone on', () => {
  test('that began the run is answered with the step the run stands on, and nothing is done twice', async () => {
    const { runId } = await startRun(onward, await publish(onward, line(tag('a'), tag('b'), send('call'))));
    const items = await beginItems(runId);
    const [first] = await worker.frameOf(10, items);
    const state = await everything(runId);
    const [again] = await worker.frameOf(10, items);
    expect(again?.replies.at(-1)).toEqual(first?.followed?.at(-1));
    expect(await everything(runId)).toEqual(state);
  });

  test.each([0, 10])('that recorded an outcome (%i may follow) goes on from where the run stands', async (following) => {
    const { runId } = await startRun(onward, await publish(onward, line(send('call'), tag('a'), tag('b'), tag('c'), send('last'))));
    const { at } = await worker.begin(runId);
    const items = recordItems(at);
    // The answer to this one, and to all that followed, was lost.
    await worker.frameOf(2, items);
    expect(await worker.run(runId)).toMatchObject({ node: 'c', seq: 5 });
    const [again] = await worker.frameOf(following, items);
    expect(kinds(again?.replies)).toEqual(['recorded', 'advanced', 'attempt', 'outcome']);
    expect(again?.replies[2]).toMatchObject({ seq: 5, node: 'c', outcome: { kind: 'done' } });
    expect(await worker.run(runId)).toMatchObject(following === 0 ? { node: 'c', seq: 5 } : { node: 'last', seq: 6 });
    expect((await worker.attempts(runId)).map(({ seq, n }) => `${seq}/${n}`)).toEqual(['1/1', '2/1', '3/1', '4/1', '5/1', ...(following === 0 ? [] : ['6/1'])]);
  });

  test('while it still goes on waits for it', async () => {
    const { runId } = await startRun(onward, await publish(onward, line(...Array.from({ length: 6 }, (_, nth) => tag(`t${nth}`)), send('call'))));
    const items = await beginItems(runId);
    const [[first], [again]] = await Promise.all([worker.frameOf(10, items), worker.frameOf(10, items)]);
    expect(first?.followed?.at(-1)).toMatchObject({ kind: 'send' });
    expect(again?.replies.at(-1)).toEqual(first?.followed?.at(-1));
    expect((await worker.attempts(runId)).every(({ n }) => n === 1)).toBe(true);
  });

  test('to another backend, while the first still goes on, is answered in the end with where the run stands', async () => {
    const other = await createBackend({ ...onward.settings, port: 0, rpcPort: 0 });
    const second = new HandWorker({ ...onward, backend: other });
    try {
      const nodes = Array.from({ length: 30 }, (_, nth) => tag(`t${nth}`));
      const { runId } = await startRun(onward, await publish(onward, line(...nodes, send('call'))));
      const items = await beginItems(runId);
      const answers = await Promise.all([worker.frameOf(50, items), second.frameOf(50, items)]);
      for (const [answer] of answers) {
        const last = (answer?.followed ?? answer?.replies)?.at(-1);
        expect(['send', 'outcome', 'error']).toContain(last?.kind);
        if (last?.kind === 'error') expect(last).toMatchObject({ code: 'unavailable' });
      }
      expect((await worker.attempts(runId)).every(({ n }) => n === 1)).toBe(true);
    } finally {
      second.close();
      await other.close();
    }
  });
});

test('a step that fails on the way is answered as the outcome it is, and judged by the worker', async () => {
  const { runId } = await startRun(onward, await publish(onward, line(tag('a'), tag('b', '{{ contact.attributes.nobody.has }}'), tag('c'))));
  const [answer] = await worker.frameOf(10, await beginItems(runId));
  expect(answer?.followed?.at(-1)).toMatchObject({ kind: 'outcome', outcome: { kind: 'failed' } });
  expect(await worker.run(runId)).toMatchObject({ state: 'running', node: 'b' });
});

describe('what follows', () => {
  const stood = { runId: 'r', claimId: 'c', epoch: 2, seq: 3 };
  const attempt = { reply: { kind: 'attempt', seq: 7, n: 1, node: 'a', tally: { failed: 0, uncertain: 0 }, outcome: null } } as const;
  const outcomeOf = (kind: 'done' | 'wait') =>
    ({ reply: { kind: 'outcome', outcome: kind === 'done' ? { kind, output: null } : { kind, dueAt: '2026-01-01T00:00:00.000Z', why: '' } } }) as const;

  test('closes the step that was answered, and begins the next', () => {
    expect(followingItems(stood, [attempt, outcomeOf('done')])).toEqual([
      { pattern: 'automation.runtime.run.advance', data: { runId: 'r', claimId: 'c', epoch: 2, seq: 7 } },
      { pattern: 'automation.runtime.attempt.create', data: { runId: 'r', claimId: 'c' } },
      { pattern: 'automation.runtime.action.execute', data: { runId: 'r', claimId: 'c' } },
    ]);
  });

  test.each([
    ['an outcome that does not lead on', [attempt, outcomeOf('wait')], true],
    ['an error', [attempt, { error: { code: 'internal', detail: '' } }], false],
    ['a rest', [{ reply: { kind: 'rests', state: 'succeeded', why: null, dueAt: null } }], false],
    ['nothing', [], false],
  ] as const)('%s is followed by nothing', (_, answers, isHis) => {
    expect(followingItems(stood, answers)).toBeNull();
    expect(isWorkersTurn(answers)).toBe(isHis);
  });

  test('a frame is known by the step it was given, or claimed', () => {
    expect(frameStepOf(stood, undefined)).toEqual(stood);
    expect(frameStepOf({ runId: 'r', claimId: 'c', callId: 1 }, { reply: { kind: 'claimed', epoch: 4, seq: 9, node: 'a', leaseMs: 1 } })).toEqual({
      ...stood,
      epoch: 4,
      seq: 9,
    });
    expect(frameStepOf({ runId: 'r', claimId: 'c', callId: 1 }, { reply: { kind: 'held' } })).toBeNull();
  });

  test('goes on for so many steps, while nobody waits for his worker and somebody for the answer', () => {
    let isAsked = true;
    const pace = new Pace(2, () => isAsked);
    expect([1, 2, 3].map((nth) => pace.allows(nth))).toEqual([true, true, false]);
    isAsked = false;
    expect(pace.allows(1)).toBe(false);
    isAsked = true;
    pace.note([attempt, outcomeOf('done')]);
    expect(pace.allows(1)).toBe(false);
  });

  test('begins no step later than half a second after the frame came', () => {
    const pace = new Pace(2, () => true);
    clock.mockReturnValue(1_499);
    expect(pace.allows(1)).toBe(true);
    clock.mockReturnValue(1_500);
    expect(pace.allows(1)).toBe(false);
    clock.mockReturnValue(1_000);
  });
});
