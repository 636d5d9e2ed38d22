import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { rows } from '../../src/database/sql.js';
import { type BackendForTest, backendForTest } from '../backend-for-test.js';
import { HandWorker, line, publish, send, startRun, tag, wait } from './hand-worker.js';

/** The usual case of a lost reply: the frame was committed, its answer never came, and the worker sends it again. */
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

const done = { kind: 'done' as const, output: { status: 200 } };
const everything = async (runId: string) => [await worker.run(runId), await worker.attempts(runId)];

/** The only difference a repeat may show: the attempt it begins has its outcome by now, the same that the next item answers. */
function asRepeated(replies: { kind: string; [key: string]: unknown }[]) {
  const performed = replies.find(({ kind }) => kind === 'outcome');
  return replies.map((reply) => (reply.kind === 'attempt' && performed ? { ...reply, outcome: performed['outcome'] } : reply));
}

test('the first frame sent again claims nothing anew and runs no action twice', async () => {
  const { runId, contactId } = await startRun(onward, await publish(onward, line(tag('a'), wait('rest', '1h'))));
  const ref = await worker.wakeUp(runId);
  const frame = () => worker.frame(['prepare', { ...ref, callId: 1 }], ['plan', ref], ['create', ref], ['execute', ref]);
  const first = await frame();
  const state = await everything(runId);
  expect(await frame()).toEqual(asRepeated(first));
  expect(await everything(runId)).toEqual(state);
  expect(await rows(onward.source, 'SELECT tag FROM contact_tags WHERE contact_id = $1', [contactId])).toEqual([{ tag: 'a' }]);
});

test('a frame that advanced, sent again, is answered the same and moves nothing', async () => {
  const { runId } = await startRun(onward, await publish(onward, line(send('call'), tag('b'), wait('rest', '1h'))));
  const { at } = await worker.begin(runId);
  const { runId: id, claimId } = at;
  const frame = () =>
    worker.frame(['update', { ...at, n: 1, outcome: done }], ['advance', at], ['create', { runId: id, claimId }], ['execute', { runId: id, claimId }]);
  const first = await frame();
  expect(first.map(({ kind }) => kind)).toEqual(['recorded', 'advanced', 'attempt', 'outcome']);
  const state = await everything(runId);
  expect(await frame()).toEqual(asRepeated(first));
  expect(await everything(runId)).toEqual(state);
});

const CLOSINGS = {
  wait: { nodes: [wait('rest', '1h')], outcome: null },
  retry: { nodes: [send('call')], outcome: { kind: 'failed', failure: { code: 'http_retryable', message: '500' } } },
  fail: { nodes: [send('call')], outcome: { kind: 'failed', failure: { code: 'http_permanent', message: '400' } } },
  advance: { nodes: [tag('last')], outcome: null },
} as const;

describe.each(Object.entries(CLOSINGS))('a frame that ends in run.%s', (verb, { nodes, outcome }) => {
  test('is answered again with where the run rests, although a new claimId was minted', async () => {
    const { runId } = await startRun(onward, await publish(onward, line(...nodes)));
    const { at, replies } = await worker.begin(runId);
    const own = outcome ?? (replies.at(-1)?.['outcome'] as object);
    const frame = () => worker.frame(['update', { ...at, n: 1, outcome: own }], [verb as 'wait', at]);
    const first = await frame();
    expect(first[1]).toMatchObject({ kind: 'rests' });
    const state = await everything(runId);
    expect(await frame()).toEqual(first);
    expect(await everything(runId)).toEqual(state);
  });
});

test('a repeat older than the last committed frame is refused', async () => {
  const { runId } = await startRun(onward, await publish(onward, line(send('call'), send('again'), wait('rest', '1h'))));
  const { at } = await worker.begin(runId);
  const first = () => worker.frame(['update', { ...at, n: 1, outcome: done }], ['advance', at]);
  await first();
  const next = { ...at, seq: 3 };
  await worker.frame(['create', next], ['execute', next]);
  await worker.frame(['update', { ...next, n: 1, outcome: done }], ['advance', next]);
  const state = await everything(runId);
  expect(await first()).toEqual([{ kind: 'refused', reason: 'stale_seq' }]);
  expect(await everything(runId)).toEqual(state);
});

test('a repeat that comes after another worker has claimed is refused', async () => {
  const { runId } = await startRun(onward, await publish(onward, line(send('call'), tag('b'))));
  const { at } = await worker.begin(runId);
  const frame = () => worker.frame(['update', { ...at, n: 1, outcome: done }], ['advance', at]);
  await frame();
  await worker.call('prepare', { runId, claimId: at.claimId, callId: 2 });
  expect(await frame()).toEqual([{ kind: 'refused', reason: 'stale_epoch' }]);
});

test('what stands before a refusal is committed', async () => {
  const { runId } = await startRun(onward, await publish(onward, line(send('call'))));
  const { at } = await worker.begin(runId);
  const replies = await worker.frame(['update', { ...at, n: 1, outcome: done }], ['fail', at], ['notify-failed', at]);
  expect(replies).toEqual([
    { kind: 'recorded', verb: 'advance' },
    { kind: 'refused', reason: 'wrong_verb', verb: 'advance' },
  ]);
  expect((await worker.attempts(runId)).at(-1)).toMatchObject({ node: 'call', status: 'done' });
});

test('an outcome that stands is never changed', async () => {
  const { runId } = await startRun(onward, await publish(onward, line(send('call'))));
  const { at } = await worker.begin(runId);
  await worker.call('update', { ...at, n: 1, outcome: done });
  const other = { kind: 'failed' as const, failure: { code: 'http_permanent' as const, message: 'no' } };
  expect(await worker.call('update', { ...at, n: 1, outcome: other })).toEqual({ kind: 'recorded', verb: 'advance' });
  expect((await worker.attempts(runId)).at(-1)).toMatchObject({ status: 'done', failure: null });
});

test('the items of one run must name that run, and only an item after a claim may leave out its epoch', async () => {
  const { runId } = await startRun(onward, await publish(onward, line(tag('a'))));
  const ref = await worker.wakeUp(runId);
  const other = { ...ref, runId: '01960000-0000-7000-8000-000000000000' };
  expect(await worker.frame(['prepare', { ...ref, callId: 1 }], ['plan', other])).toMatchObject([{ kind: 'error', code: 'invalid' }]);
  expect(await worker.frame(['plan', ref])).toMatchObject([{ kind: 'error', code: 'invalid' }]);
  expect(await worker.run(runId)).toMatchObject({ state: 'pending', epoch: 0 });
});
