import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { change, rows } from '../../src/database/sql.js';
import { type BackendForTest, backendForTest } from '../backend-for-test.js';
import { type Graph, HandWorker, line, publish, send, startRun, tag, wait } from './hand-worker.js';

let onward: BackendForTest;
let worker: HandWorker;
beforeAll(async () => {
  onward = await backendForTest({ AUTOMATIONS_SWEEP_INTERVAL_MS: '100000', AUTOMATIONS_LEASE_MS: '60000', AUTOMATIONS_MINIMUM_WAIT_MS: '60000' });
  worker = new HandWorker(onward);
});
afterAll(async () => {
  worker?.close();
  await onward?.close();
});

const done = { kind: 'done', output: { status: 200, body: { ok: true } } } as const;

async function rest(runId: string): Promise<void> {
  const { at } = await worker.begin(runId);
  await worker.call('wait', at);
}

/** Behind the last node of the line a condition leads to the tag `yes` or `no`. */
function askedBehind(last: string, { nodes, edges }: Graph, asked: { field: string; op: string; value: unknown }): Graph {
  return {
    nodes: [...nodes, { id: 'ask', type: 'condition', config: { tests: [asked] } }, tag('yes'), tag('no')],
    edges: [
      ...edges.filter(({ from }) => from !== last),
      { from: last, to: 'ask' },
      { from: 'ask', port: 'true', to: 'yes' },
      { from: 'ask', port: 'false', to: 'no' },
      { from: 'yes', to: 'finish' },
      { from: 'no', to: 'finish' },
    ],
  };
}

test('a condition sees what an action of the same frame made of the contact', async () => {
  const graph = askedBehind('mark', line(tag('mark', 'vip')), { field: 'contact.tags', op: 'contains', value: 'vip' });
  const { runId } = await startRun(onward, await publish(onward, graph));
  const ref = await worker.wakeUp(runId);
  await worker.frame(['prepare', { ...ref, callId: 1 }], ['plan', ref], ['create', ref], ['execute', ref], ['advance', ref]);
  expect(await worker.run(runId)).toMatchObject({ node: 'yes' });
});

describe('waits', () => {
  test('F09: a wait of 40 days rests as a row until its time, and goes on once', async () => {
    const { runId } = await startRun(onward, await publish(onward, line(wait('rest', '40d'), tag('a'))));
    await rest(runId);
    const [{ left } = { left: 0 }] = await rows<{ left: number }>(
      onward.source,
      'SELECT extract(epoch FROM due_at - onward_now())::float8 AS left FROM runs WHERE id = $1',
      [runId],
    );
    expect(Math.abs(left - 40 * 86_400)).toBeLessThan(5);
    expect(await worker.run(runId)).toMatchObject({ state: 'waiting', wokenAt: null });
    await onward.clock.advance('P39D');
    expect((await worker.begin(runId)).replies[0]).toMatchObject({ kind: 'not_due' });
    await onward.clock.advance('P1DT1M');
    const { at } = await worker.begin(runId);
    await worker.call('advance', at);
    expect((await worker.attempts(runId)).map(({ node }) => node)).toEqual(['start', 'rest', 'a', 'finish']);
  });

  test('F15: a wait of zero is a minute, a past instant goes on at once', async () => {
    const zero = await startRun(onward, await publish(onward, line(wait('rest', 0), tag('a'))));
    await rest(zero.runId);
    const [{ left } = { left: 0 }] = await rows<{ left: number }>(
      onward.source,
      'SELECT extract(epoch FROM due_at - onward_now())::float8 AS left FROM runs WHERE id = $1',
      [zero.runId],
    );
    expect(left).toBeGreaterThan(55);
    const past = await startRun(
      onward,
      await publish(onward, line({ id: 'rest', type: 'wait', config: { kind: 'until', at: '2020-01-01T00:00:00Z' } }, tag('a'))),
    );
    await rest(past.runId);
    expect((await worker.begin(past.runId)).replies[0]).toMatchObject({ kind: 'claimed', node: 'a' });
  });

  test('F15: a duration that is wrong only at run time ends the run failed with a readable reason, and nobody waits without a time', async () => {
    const { runId } = await startRun(onward, await publish(onward, line(wait('rest', '{{ contact.attributes.days }}'), tag('a'))));
    const { at, replies } = await worker.begin(runId);
    expect(replies.at(-1)).toMatchObject({ kind: 'outcome', outcome: { kind: 'failed', failure: { code: 'value_invalid' } } });
    await worker.call('fail', at);
    expect(await worker.run(runId)).toMatchObject({ state: 'failed', endReason: 'value_invalid' });
    expect(await rows(onward.source, `SELECT id FROM runs WHERE state = 'waiting' AND due_at IS NULL AND wait_key IS NULL`)).toEqual([]);
  });

  test('F10: the answer of a call before a wait can still be used after it, and the call is not made again', async () => {
    const graph = askedBehind('rest', line(send('call'), wait('rest', '2m')), { field: 'steps.call.body.ok', op: 'equals', value: true });
    const { runId } = await startRun(onward, await publish(onward, graph));
    const { at } = await worker.begin(runId);
    await worker.frame(
      ['update', { ...at, n: 1, outcome: done }],
      ['advance', at],
      ['create', { runId, claimId: at.claimId }],
      ['execute', { runId, claimId: at.claimId }],
    );
    await worker.call('wait', { ...at, seq: 3 });
    await onward.clock.advance('PT10M');
    const next = await worker.begin(runId);
    expect(next.replies[0]).toMatchObject({ kind: 'claimed', node: 'yes' });
    await worker.call('advance', next.at);
    expect((await worker.attempts(runId)).map(({ node, n }) => [node, n])).toEqual([
      ['start', 1],
      ['call', 1],
      ['rest', 1],
      ['ask', 1],
      ['yes', 1],
      ['finish', 1],
    ]);
  });
});

describe('cancelling', () => {
  test('F71a: a waiting run is cancelled at once and never goes on', async () => {
    const { runId } = await startRun(onward, await publish(onward, line(wait('rest', '1d'), tag('a'))));
    await rest(runId);
    const { status, body } = await onward.api<{ cancelled: string }>('POST', `/runs/${runId}/cancel`);
    expect([status, body.cancelled]).toEqual([200, 'now']);
    await onward.clock.advance('P2D');
    expect((await worker.begin(runId)).replies).toMatchObject([{ kind: 'rests', state: 'cancelled' }]);
  });

  test('F71b: a run cancelled during a request ends cancelled when the request is over, even if it succeeded', async () => {
    const { runId } = await startRun(onward, await publish(onward, line(send('call'), tag('after'))));
    const { at } = await worker.begin(runId);
    expect((await onward.api<{ cancelled: string }>('POST', `/runs/${runId}/cancel`)).body.cancelled).toBe('after_step');
    const closed = await worker.frame(['update', { ...at, n: 1, outcome: done }], ['advance', at], ['create', { runId, claimId: at.claimId }]);
    expect(closed.at(-1)).toMatchObject({ kind: 'rests', state: 'cancelled' });
    expect((await worker.attempts(runId)).map(({ node, status }) => [node, status])).toEqual([
      ['start', 'done'],
      ['call', 'done'],
    ]);
  });

  test('F71d: cancelling twice changes nothing', async () => {
    const { runId } = await startRun(onward, await publish(onward, line(tag('a'))));
    await onward.api('POST', `/runs/${runId}/cancel`);
    const before = await worker.run(runId);
    const { status, body } = await onward.api<{ cancelled: string }>('POST', `/runs/${runId}/cancel`);
    expect([status, body.cancelled]).toEqual([200, 'before']);
    expect(await worker.run(runId)).toEqual(before);
  });

  test('F71e: a run that has ended is a conflict', async () => {
    const { runId } = await startRun(onward, await publish(onward, line(tag('a'))));
    const { at } = await worker.begin(runId);
    await worker.call('advance', at);
    expect((await onward.api('POST', `/runs/${runId}/cancel`)).status).toBe(409);
    expect(await worker.run(runId)).toMatchObject({ state: 'succeeded' });
  });
});

describe('pausing', () => {
  test('F16 (in part): while paused nothing moves and no attempt is spent; on resume what is overdue goes on under a new claim', async () => {
    const workflowId = await publish(onward, line(wait('rest', '1h'), tag('a')));
    const { runId } = await startRun(onward, workflowId);
    await rest(runId);
    await onward.api('POST', `/workflows/${workflowId}/pause`);
    await onward.clock.advance('P5D');
    expect(await worker.run(runId)).toMatchObject({ state: 'waiting', isHeld: true });
    const ref = await worker.wakeUp(runId);
    expect(await worker.call('prepare', { ...ref, callId: 1 })).toEqual({ kind: 'held' });
    await onward.api('POST', `/workflows/${workflowId}/resume`);
    await onward.clock.advance('PT1S');
    const freed = await worker.run(runId);
    expect(freed).toMatchObject({ state: 'waiting', isHeld: false, n: 1 });
    expect(freed.claimId).not.toBe(ref.claimId);
    expect((await worker.begin(runId)).replies[0]).toMatchObject({ kind: 'claimed', node: 'a' });
  });

  test('a running run finishes its step and is held before the next', async () => {
    const workflowId = await publish(onward, line(send('call'), tag('a')));
    const { runId } = await startRun(onward, workflowId);
    const { at } = await worker.begin(runId);
    await onward.api('POST', `/workflows/${workflowId}/pause`);
    const closed = await worker.frame(['update', { ...at, n: 1, outcome: done }], ['advance', at]);
    expect(closed.at(-1)).toMatchObject({ kind: 'rests', state: 'pending' });
    expect(await worker.run(runId)).toMatchObject({ state: 'pending', node: 'a', isHeld: true });
  });
});

describe('replay', () => {
  async function deadLetter(workflowId: string): Promise<string> {
    const { runId } = await startRun(onward, workflowId);
    const first = await worker.begin(runId);
    await worker.call('advance', first.at);
    const at = { ...first.at, seq: 3 };
    await worker.frame(['create', at], ['execute', at]);
    await worker.frame(['update', { ...at, n: 1, outcome: { kind: 'failed', failure: { code: 'http_permanent', message: '400' } } }], ['fail', at]);
    return runId;
  }

  test('F75a: a replay begins at the failed node of its own version, runs nothing before it again, and keeps the first life', async () => {
    const workflowId = await publish(onward, line(tag('before'), send('call')));
    const runId = await deadLetter(workflowId);
    const { versionId } = (await onward.api<{ versionId: string }>('GET', `/runs/${runId}`)).body;
    await onward.api('POST', `/workflows/${workflowId}/publish`);
    const [first, second] = await Promise.all([onward.api('POST', `/runs/${runId}/replay`, {}), onward.api('POST', `/runs/${runId}/replay`, {})]);
    expect([first?.status, second?.status].sort()).toEqual([200, 409]);
    const { at, replies } = await worker.begin(runId);
    expect(replies[0]).toMatchObject({ kind: 'claimed', node: 'call', seq: 4 });
    await worker.frame(['update', { ...at, n: 1, outcome: done }], ['advance', at]);
    expect(await worker.run(runId)).toMatchObject({ state: 'succeeded' });
    expect((await onward.api<{ versionId: string }>('GET', `/runs/${runId}`)).body.versionId).toBe(versionId);
    expect(await rows(onward.source, 'SELECT seq, node, status, replay_of FROM attempts WHERE run_id = $1 ORDER BY seq, n', [runId])).toEqual([
      { seq: 1, node: 'start', status: 'done', replay_of: null },
      { seq: 2, node: 'before', status: 'done', replay_of: null },
      { seq: 3, node: 'call', status: 'failed', replay_of: null },
      { seq: 4, node: 'call', status: 'done', replay_of: 3 },
      { seq: 5, node: 'finish', status: 'done', replay_of: null },
    ]);
    const keys = await rows<{ key: string }>(onward.source, 'SELECT idempotency_key AS key FROM outbound_requests WHERE run_id = $1', [runId]);
    expect(new Set(keys.map(({ key }) => key)).size).toBe(2);
  });

  test('a replay whose contact is in another live run of the workflow is a conflict naming it', async () => {
    const workflowId = await publish(onward, line(tag('before'), send('call')), { reentry: 'after_finishing' });
    const runId = await deadLetter(workflowId);
    const { contactId } = (await onward.api<{ contactId: string }>('GET', `/runs/${runId}`)).body;
    const started = await onward.api<{ results: { runId: string }[] }>('POST', '/runs', { workflowId, contacts: [{ id: contactId }] });
    const { status, body } = await onward.api<{ detail: string }>('POST', `/runs/${runId}/replay`, {});
    expect(status).toBe(409);
    expect(body.detail).toContain(started.body.results[0]?.runId);
  });
});

describe('what a run was started with', () => {
  test('a contact deleted between creation and first step ends the run failed, and says so', async () => {
    const { runId, contactId } = await startRun(onward, await publish(onward, line(tag('a'))));
    await onward.api('DELETE', `/contacts/${contactId}`);
    const { replies } = await worker.begin(runId);
    expect(replies[1]).toMatchObject({ kind: 'rests', state: 'failed' });
    const { body } = await onward.api<{ state: string; why: string; history: { failure: { message: string } | null }[] }>('GET', `/runs/${runId}`);
    expect(body).toMatchObject({ state: 'failed', why: 'failed at a: contact_deleted' });
    expect(body.history.at(-1)?.failure?.message).toContain('was deleted');
  });

  test('a step done before its contact was deleted stays done, and the run fails on the next one', async () => {
    const { runId, contactId } = await startRun(onward, await publish(onward, line(tag('a'), tag('b'))));
    await worker.begin(runId, 1);
    await onward.api('DELETE', `/contacts/${contactId}`);
    const { replies } = await worker.begin(runId, 2);
    expect(replies[1]).toMatchObject({ kind: 'rests', state: 'failed' });
    expect((await onward.api<{ why: string }>('GET', `/runs/${runId}`)).body.why).toBe('failed at b: contact_deleted');
    expect(await worker.attempts(runId)).toMatchObject([
      { seq: 1, node: 'start' },
      { seq: 2, node: 'a', status: 'done', output: { changed: true }, failure: null },
      { seq: 3, node: 'b', status: 'failed', failure: { code: 'contact_deleted' } },
    ]);
  });

  test('a request that may have left before its contact was deleted is uncertain and not failed', async () => {
    const { runId, contactId } = await startRun(onward, await publish(onward, line(send('call'), tag('b'))));
    await worker.begin(runId, 1);
    await onward.api('DELETE', `/contacts/${contactId}`);
    const { replies } = await worker.begin(runId, 2);
    expect(replies[1]).toMatchObject({ kind: 'rests', state: 'retrying' });
    expect((await worker.attempts(runId)).slice(1)).toMatchObject([{ node: 'call', n: 1, status: 'uncertain', failure: { code: 'process_died' } }]);
  });

  test('a request handed over by a frame that comes twice is handed over again, though its contact was deleted in between', async () => {
    const { runId, contactId } = await startRun(onward, await publish(onward, line(send('call'))));
    await worker.begin(runId, 1);
    await onward.api('DELETE', `/contacts/${contactId}`);
    expect((await worker.begin(runId, 1)).replies.at(-1)).toMatchObject({ kind: 'send' });
  });

  test('F20: a type this version does not know is passed along its first edge, marked, counted and shown', async () => {
    const workflowId = await publish(onward, line(tag('a'), tag('b')));
    await change(onward.source, `UPDATE workflow_versions SET graph = jsonb_set(graph, '{nodes,1,type}', '"SEND_FAX"') WHERE workflow_id = $1`, [workflowId]);
    const { runId } = await startRun(onward, workflowId);
    const { at, replies } = await worker.begin(runId);
    expect(replies[0]).toMatchObject({ kind: 'claimed', node: 'b' });
    await worker.call('advance', at);
    const { body } = await onward.api<{ state: string; unknownNodes: number; history: { node: string; mark: string | null }[] }>('GET', `/runs/${runId}`);
    expect(body).toMatchObject({ state: 'succeeded', unknownNodes: 1 });
    expect(body.history[1]).toMatchObject({ node: 'a', mark: 'unknown_node' });
  });

  test('F20: an unknown node with no edge to follow ends the run failed, naming the node', async () => {
    const workflowId = await publish(onward, line(tag('a')));
    await change(
      onward.source,
      `UPDATE workflow_versions SET graph = jsonb_set(jsonb_set(graph, '{nodes,1,type}', '"SEND_FAX"'), '{edges}', (graph -> 'edges') - 1) WHERE workflow_id = $1`,
      [workflowId],
    );
    const { runId } = await startRun(onward, workflowId);
    await worker.begin(runId);
    const { body } = await onward.api<{ why: string }>('GET', `/runs/${runId}`);
    expect(body.why).toBe('failed at a: unknown_node');
  });

  test('F20: with AUTOMATIONS_UNKNOWN_NODE=fail the run ends failed naming the node', async () => {
    const strict = await backendForTest({ AUTOMATIONS_SWEEP_INTERVAL_MS: '100000', AUTOMATIONS_UNKNOWN_NODE: 'fail' });
    const hand = new HandWorker(strict);
    const workflowId = await publish(strict, line(tag('a'), tag('b')));
    await change(strict.source, `UPDATE workflow_versions SET graph = jsonb_set(graph, '{nodes,1,type}', '"SEND_FAX"') WHERE workflow_id = $1`, [workflowId]);
    const { runId } = await startRun(strict, workflowId);
    await hand.begin(runId);
    expect(await hand.run(runId)).toMatchObject({ state: 'failed', node: 'a', endReason: 'unknown_node' });
    hand.close();
    await strict.close();
  });
});
