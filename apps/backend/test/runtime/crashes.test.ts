import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { transactAndTell } from '../../src/database/outbox.js';
import { change, rows } from '../../src/database/sql.js';
import { EventBus } from '../../src/events/event-bus.js';
import { beginMessage } from '../../src/mail/begin-message.js';
import { endMessage } from '../../src/mail/end-message.js';
import { Queues } from '../../src/operations/queues.js';
import { RuntimeKit } from '../../src/runtime/runtime-kit.js';
import { lapseRuns } from '../../src/sweeper/lapse-runs.js';
import { type BackendForTest, backendForTest } from '../backend-for-test.js';
import { type GraphNode, HandWorker, line, publish, send, startRun, tag } from './hand-worker.js';

/** Workers that die, come back late, or are handed the same job twice, at the moments where it hurts. */
let onward: BackendForTest;
let worker: HandWorker;
beforeAll(async () => {
  onward = await backendForTest({ AUTOMATIONS_SWEEP_INTERVAL_MS: '100000', AUTOMATIONS_LEASE_MS: '60000' });
  worker = new HandWorker(onward);
  await onward.api('POST', '/templates', { name: 'hello', subject: 'Hello', text: 'Hello' });
});
afterAll(async () => {
  worker?.close();
  await onward?.close();
});

const inTx = <Result>(work: Parameters<typeof transactAndTell<Result>>[2]) => transactAndTell(onward.source, onward.backend.app.get(Queues), work);
const kit = () => onward.backend.app.get(RuntimeKit, { strict: false });
const mail: GraphNode = { id: 'greet', type: 'action', config: { action: 'SEND_MAIL', with: { template: 'hello' } } };
const SENT = { kind: 'sent' as const, response: '250 ok', at: new Date().toISOString() };

async function lapse(runId: string): Promise<void> {
  await change(onward.source, `UPDATE runs SET lease_until = clock_timestamp() - interval '1 second' WHERE id = $1`, [runId]);
  await inTx((tx) => lapseRuns(tx, kit()));
}

async function deliver(runId: string): Promise<void> {
  const [message] = await rows<{ id: string; try: number }>(onward.source, 'SELECT id, try FROM messages WHERE run_id = $1', [runId]);
  const ref = { messageId: message?.id ?? '', try: message?.try ?? 0 };
  await inTx((tx) => beginMessage(tx, { ...ref, callId: randomUUID() }));
  await inTx((tx) => endMessage(tx, onward.backend.app.get(EventBus), { ...ref, result: SENT }));
}

describe('a worker that dies after SEND_MAIL and before it could lay the run to rest', () => {
  test('does not make the run wait for ever when the mail was sent before the lapse', async () => {
    const { runId } = await startRun(onward, await publish(onward, line(mail, tag('after'))));
    await worker.begin(runId);
    await deliver(runId);
    await lapse(runId);
    const { at } = await worker.begin(runId);
    expect(await worker.call('wait', at)).toMatchObject({ kind: 'rests', state: 'waiting', dueAt: expect.any(String) });
    expect((await worker.begin(runId)).replies[0]).toMatchObject({ kind: 'claimed', node: 'after' });
  });

  test('does not make the run wait for ever when the mail is sent after the next worker has claimed', async () => {
    const { runId } = await startRun(onward, await publish(onward, line(mail, tag('after'))));
    await worker.begin(runId);
    await lapse(runId);
    const { at } = await worker.begin(runId);
    await deliver(runId);
    expect(await worker.call('wait', at)).toMatchObject({ kind: 'rests', state: 'waiting', dueAt: expect.any(String) });
  });
});

test('two hand-outs with one number, of a job that was lost and added again, never hold one epoch', async () => {
  const { runId } = await startRun(onward, await publish(onward, line(send('call'))));
  const ref = await worker.wakeUp(runId);
  const [one, other] = [randomUUID(), randomUUID()];
  expect(await worker.call('prepare', { ...ref, callId: 1, handOutId: one })).toMatchObject({ kind: 'claimed', epoch: 1 });
  expect(await worker.call('prepare', { ...ref, callId: 1, handOutId: one })).toMatchObject({ kind: 'claimed', epoch: 1 });
  expect(await worker.call('prepare', { ...ref, callId: 1, handOutId: other })).toMatchObject({ kind: 'claimed', epoch: 2 });
  expect(await worker.call('create', { ...ref, epoch: 1, seq: 2 })).toEqual({ kind: 'refused', reason: 'stale_epoch' });
});

test('a text cut in the middle of a character, or with a NUL, is stored, and stops neither run nor emitter', async () => {
  const long = `${'x'.repeat(999)}😀`;
  const graph = line({ id: 'a', type: 'action', config: { action: 'ADD_TAG', with: { tag: '{{ contact.attributes.long }}' } } });
  const workflowId = await publish(onward, graph);
  const contact = await onward.api<{ id: string }>('POST', '/contacts', { email: 'long@example.test', attributes: { long } });
  const started = await onward.api<{ results: { runId: string }[] }>('POST', '/runs', { workflowId, contacts: [{ id: contact.body.id }] });
  const runId = started.body.results[0]?.runId ?? '';
  const { at, replies } = await worker.begin(runId);
  expect(replies.at(-1)).toMatchObject({ kind: 'outcome', outcome: { kind: 'failed', failure: { code: 'value_invalid' } } });
  expect(await worker.call('fail', at)).toMatchObject({ kind: 'rests', state: 'failed' });
  const call = await startRun(onward, await publish(onward, line(send('call'))));
  const begun = await worker.begin(call.runId);
  const outcome = { kind: 'done' as const, output: { body: 'a\0b\ud83d', '\ud83d': 1 } };
  expect(await worker.frame(['update', { ...begun.at, n: 1, outcome }], ['advance', begun.at])).toMatchObject([
    { kind: 'recorded' },
    { kind: 'rests', state: 'succeeded' },
  ]);
  expect((await worker.attempts(call.runId)).find(({ node }) => node === 'call')?.output).toEqual({ body: 'a\ufffdb\ufffd', '\ufffd': 1 });
});

test('a run whose claim fails by a fault of ours every time is given up after 25 times, and not tried for ever', async () => {
  const { runId } = await startRun(onward, await publish(onward, line(tag('a'))));
  const ref = await worker.wakeUp(runId);
  await change(onward.source, `UPDATE runs SET state = 'waiting', wait_reason = 'time' WHERE id = $1`, [runId]); // waits at a step that was never begun
  for (let callId = 1; callId <= 25; callId += 1) {
    expect(await worker.frame(['prepare', { ...ref, callId }])).toMatchObject([{ kind: 'error', code: 'internal' }]);
  }
  expect(await worker.run(runId)).toMatchObject({ state: 'dead_lettered', endReason: 'poison_step' });
});

test('and its send is left uncertain, not going on for ever', async () => {
  const { runId } = await startRun(onward, await publish(onward, line(send('call'))));
  await worker.begin(runId);
  await lapse(runId);
  await change(onward.source, `UPDATE runs SET version_id = gen_random_uuid() WHERE id = $1`, [runId]);
  const ref = await worker.wakeUp(runId);
  // The lapse was the first of the 25.
  for (let callId = 1; callId <= 24; callId += 1) {
    expect(await worker.frame(['prepare', { ...ref, callId }])).toMatchObject([{ kind: 'error', code: 'internal' }]);
  }
  expect(await worker.run(runId)).toMatchObject({ state: 'dead_lettered', endReason: 'poison_step' });
  expect((await worker.attempts(runId)).at(-1)).toMatchObject({ node: 'call', status: 'uncertain', failure: { code: 'process_died' } });
});

test('a cancel asked of a run whose worker died ends it when its lease lapses', async () => {
  const { runId } = await startRun(onward, await publish(onward, line(send('call'))));
  await worker.begin(runId);
  await onward.api('POST', `/runs/${runId}/cancel`);
  await lapse(runId);
  expect(await worker.run(runId)).toMatchObject({ state: 'cancelled' });
});

test('a cancel does not hide that a send was left without outcome', async () => {
  const { runId } = await startRun(onward, await publish(onward, line(send('call'))));
  await worker.begin(runId, 1);
  await onward.api('POST', `/runs/${runId}/cancel`);
  await worker.begin(runId, 2);
  expect(await worker.run(runId)).toMatchObject({ state: 'cancelled' });
  expect((await worker.attempts(runId)).at(-1)).toMatchObject({ node: 'call', status: 'uncertain' });
});

test('a take-over on a paused workflow performs nothing', async () => {
  const workflowId = await publish(onward, line(send('call')));
  const { runId } = await startRun(onward, workflowId);
  const ref = await worker.wakeUp(runId);
  await worker.call('prepare', { ...ref, callId: 1 });
  await onward.api('POST', `/workflows/${workflowId}/pause`);
  expect(await worker.call('prepare', { ...ref, callId: 2 })).toEqual({ kind: 'held' });
  expect(await worker.run(runId)).toMatchObject({ state: 'pending', isHeld: true });
});

test('a renewal waits for no run that is being moved, and neither renews nor refuses it', async () => {
  const { runId } = await startRun(onward, await publish(onward, line(send('call'))));
  const other = await startRun(onward, await publish(onward, line(send('call'))));
  const [first, second] = [await worker.begin(runId), await worker.begin(other.runId)];
  const renew = ({ at }: typeof first) => ({
    items: [{ pattern: 'automation.runtime.run.prepare' as const, data: { runId: at.runId, claimId: at.claimId, epoch: at.epoch, renew: true } }],
  });
  const runner = onward.source.createQueryRunner();
  await runner.startTransaction();
  await runner.query('SELECT 1 FROM runs WHERE id = $1 FOR UPDATE', [runId]);
  const answer = await worker.client.call('automation.runtime.frame', {
    v: 1,
    worker: { workerId: '00000000-0000-7000-8000-000000000001', inFlight: 2, targets: [] },
    runs: [renew(first), renew(second)],
  });
  await runner.rollbackTransaction();
  await runner.release();
  expect(answer.runs.map(({ replies }) => replies[0])).toMatchObject([{ error: { code: 'unavailable' } }, { reply: { kind: 'renewed' } }]);
  const health = await onward.api<{ workers: number; runsInHand: number }>('GET', '//health/ready');
  expect(health.body).toMatchObject({ workers: 1, runsInHand: 2 });
});

test('a renewal comes alone', async () => {
  const { runId } = await startRun(onward, await publish(onward, line(send('call'))));
  const { at } = await worker.begin(runId);
  const renewal = { runId, claimId: at.claimId, epoch: at.epoch, renew: true };
  expect(await worker.frame(['prepare', renewal], ['latest', at])).toMatchObject([{ kind: 'error', code: 'invalid' }]);
});

test('replaying a send that may have happened keeps its key and body', async () => {
  const { runId } = await startRun(onward, await publish(onward, line(send('call', { uncertain: 'stop' }))));
  const { at } = await worker.begin(runId);
  await worker.frame(['update', { ...at, n: 1, outcome: { kind: 'uncertain', failure: { code: 'process_died', message: 'cut' } } }], ['dead-letter', at]);
  await onward.api('POST', `/runs/${runId}/replay`, {});
  await worker.begin(runId);
  const sent = await rows<{ seq: number; key: string; hash: string }>(
    onward.source,
    `SELECT seq, idempotency_key AS key, encode(body_hash, 'hex') AS hash FROM outbound_requests WHERE run_id = $1 ORDER BY seq`,
    [runId],
  );
  expect(sent.map(({ seq }) => seq)).toEqual([2, 3]);
  expect(new Set(sent.map(({ key, hash }) => key + hash)).size).toBe(1);
});

test('a run that is cancelled after its worker died does not say for ever that it is sending', async () => {
  const { runId } = await startRun(onward, await publish(onward, line(send('call'))));
  await worker.begin(runId);
  await onward.api('POST', `/runs/${runId}/cancel`);
  await lapse(runId);
  expect((await worker.attempts(runId)).at(-1)).toMatchObject({ node: 'call', status: 'uncertain', failure: { code: 'process_died' } });
});

test('nor does one that is cancelled after its lease has lapsed', async () => {
  const { runId } = await startRun(onward, await publish(onward, line(send('call'))));
  await worker.begin(runId);
  await lapse(runId);
  expect(await worker.run(runId)).toMatchObject({ state: 'pending' });
  await onward.api('POST', `/runs/${runId}/cancel`);
  expect(await worker.run(runId)).toMatchObject({ state: 'cancelled' });
  expect((await worker.attempts(runId)).at(-1)).toMatchObject({ node: 'call', status: 'uncertain', failure: { code: 'process_died' } });
});
