import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { change, rows } from '../../src/database/sql.js';
import { type BackendForTest, backendForTest } from '../backend-for-test.js';
import { type Graph, HandWorker, line, publish, send, startRun, tag, wait } from './hand-worker.js';

let onward: BackendForTest;
let worker: HandWorker;
beforeAll(async () => {
  onward = await backendForTest({ AUTOMATIONS_SWEEP_INTERVAL_MS: '100000', AUTOMATIONS_LEASE_MS: '60000', AUTOMATIONS_MAX_STEPS_PER_RUN: '30' });
  worker = new HandWorker(onward);
});
afterAll(async () => {
  worker?.close();
  await onward?.close();
});

const again = { kind: 'failed', failure: { code: 'http_retryable', message: 'the target answered 500' } } as const;
const never = { kind: 'failed', failure: { code: 'http_permanent', message: 'the target answered 400' } } as const;
const unsure = { kind: 'uncertain', failure: { code: 'process_died', message: 'cut' } } as const;

async function fail(runId: string, n: number, outcome: object, verb: 'retry' | 'fail' | 'dead-letter' | 'advance'): Promise<void> {
  const { at, replies } = await worker.begin(runId);
  expect(replies.at(-1)).toMatchObject({ kind: 'send' });
  const closed = await worker.frame(['update', { ...at, n, outcome }], [verb, at]);
  expect(closed[0]).toEqual({ kind: 'recorded', verb });
}

describe('retries', () => {
  test('a step that fails three times ends in the dead letter, with every error and one notice; the request is the same each time', async () => {
    const { runId } = await startRun(onward, await publish(onward, line(send('call'))));
    await fail(runId, 1, again, 'retry');
    expect(await worker.run(runId)).toMatchObject({ state: 'retrying', n: 2 });
    await onward.clock.advance('PT1M');
    await fail(runId, 2, again, 'retry');
    await onward.clock.advance('PT5M');
    await fail(runId, 3, again, 'dead-letter');
    expect(await worker.run(runId)).toMatchObject({ state: 'dead_lettered', endReason: 'http_retryable', node: 'call' });
    expect((await worker.attempts(runId)).filter(({ node }) => node === 'call')).toMatchObject([
      { n: 1, status: 'failed', verb: 'retry' },
      { n: 2, status: 'failed', verb: 'retry' },
      { n: 3, status: 'failed', verb: 'dead-letter' },
    ]);
    expect(await rows(onward.source, 'SELECT state, node FROM notices WHERE run_id = $1', [runId])).toEqual([{ state: 'dead_lettered', node: 'call' }]);
    expect(await rows(onward.source, 'SELECT seq FROM outbound_requests WHERE run_id = $1', [runId])).toHaveLength(1);
  });

  test('a permanent failure ends the run at once', async () => {
    const { runId } = await startRun(onward, await publish(onward, line(send('call'))));
    await fail(runId, 1, never, 'fail');
    expect(await worker.run(runId)).toMatchObject({ state: 'failed', endReason: 'http_permanent' });
  });

  test('the target’s own wish for the next try is obeyed when it is later than ours', async () => {
    const { runId } = await startRun(onward, await publish(onward, line(send('call'))));
    await fail(runId, 1, { kind: 'failed', failure: { ...again.failure, retryAfterMs: 7_200_000 } }, 'retry');
    const [{ left } = { left: 0 }] = await rows<{ left: number }>(
      onward.source,
      `SELECT extract(epoch FROM due_at - onward_now())::float8 AS left FROM runs WHERE id = $1`,
      [runId],
    );
    expect(left).toBeGreaterThan(7_100);
  });

  test('a step that failed for good leaves by its failed port where one is drawn, recorded as failed and not notified', async () => {
    const graph: Graph = line(send('call'), tag('well'));
    graph.nodes.push(tag('badly'), { id: 'over', type: 'end' });
    graph.edges.push({ from: 'call', port: 'failed', to: 'badly' }, { from: 'badly', to: 'over' });
    const { runId } = await startRun(onward, await publish(onward, graph));
    await fail(runId, 1, never, 'advance');
    expect(await worker.run(runId)).toMatchObject({ state: 'running', node: 'badly' });
    expect((await worker.attempts(runId)).at(-1)).toMatchObject({ node: 'call', status: 'failed', port: 'failed' });
    expect(await rows(onward.source, 'SELECT 1 FROM notices WHERE run_id = $1', [runId])).toEqual([]);
  });

  test('an uncertain send is repeated three times, spends none of the three attempts, and is then given up', async () => {
    const { runId } = await startRun(onward, await publish(onward, line(send('call'))));
    for (const n of [1, 2, 3]) {
      await fail(runId, n, unsure, 'retry');
      await onward.clock.advance('PT1H');
    }
    await fail(runId, 4, unsure, 'dead-letter');
    expect(await worker.run(runId)).toMatchObject({ state: 'dead_lettered' });
  });

  test('under the policy stop an uncertain send is given up at once', async () => {
    const { runId } = await startRun(onward, await publish(onward, line(send('call', { uncertain: 'stop' }))));
    await fail(runId, 1, unsure, 'dead-letter');
  });

  test('an intent left without outcome by an older claim is uncertain, and the next attempt carries the same key', async () => {
    const { runId } = await startRun(onward, await publish(onward, line(send('call'))));
    const { replies } = await worker.begin(runId, 1);
    const later = await worker.begin(runId, 2);
    expect(later.replies[2]).toMatchObject({ kind: 'attempt', n: 1, outcome: { kind: 'uncertain' } });
    await worker.call('retry', later.at);
    await onward.clock.advance('PT1H');
    const next = await worker.begin(runId, 1);
    expect(next.replies[2]).toMatchObject({ kind: 'attempt', n: 2, outcome: null, tally: { failed: 0, uncertain: 1 } });
    expect(next.replies[3]).toEqual(replies[3]);
  });

  test('what was not sent spends nothing: the next claim opens the same attempt again', async () => {
    const { runId } = await startRun(onward, await publish(onward, line(send('call'))));
    const { at } = await worker.begin(runId);
    await worker.frame(['update', { ...at, n: 1, outcome: { kind: 'not_sent', why: 'stopping' } }], ['wait', at]);
    expect(await worker.run(runId)).toMatchObject({ state: 'pending', node: 'call', n: 1 });
    const next = await worker.begin(runId);
    expect(next.replies[2]).toMatchObject({ kind: 'attempt', n: 1, tally: { failed: 0, uncertain: 0 } });
    expect(next.replies[3]).toMatchObject({ kind: 'send' });
  });
});

describe('closing calls', () => {
  test('a verb other than the backend’s own judgement is refused with the right one', async () => {
    const { runId } = await startRun(onward, await publish(onward, line(send('call'))));
    const { at } = await worker.begin(runId);
    await worker.call('update', { ...at, n: 1, outcome: again });
    for (const verb of ['advance', 'wait', 'fail', 'dead-letter'] as const) {
      expect(await worker.call(verb, at)).toEqual({ kind: 'refused', reason: 'wrong_verb', verb: 'retry' });
    }
    expect(await worker.call('retry', at)).toMatchObject({ kind: 'rests', state: 'retrying' });
  });

  test('nothing is closed before its outcome is recorded', async () => {
    const { runId } = await startRun(onward, await publish(onward, line(send('call'))));
    const { at } = await worker.begin(runId);
    for (const verb of ['advance', 'wait', 'retry', 'fail', 'dead-letter'] as const)
      expect(await worker.call(verb, at)).toEqual({ kind: 'refused', reason: 'no_attempt' });
  });

  test('run.succeed is for a run that stands on an end', async () => {
    const { runId } = await startRun(onward, await publish(onward, line(send('call'))));
    const { at } = await worker.begin(runId);
    expect(await worker.call('succeed', at)).toEqual({ kind: 'refused', reason: 'not_at_end' });
    await change(onward.source, `UPDATE runs SET node = 'finish' WHERE id = $1`, [runId]);
    expect(await worker.call('succeed', at)).toMatchObject({ kind: 'rests', state: 'succeeded' });
  });

  test('an advance that reaches the end commits the end', async () => {
    const { runId } = await startRun(onward, await publish(onward, line(tag('a'))));
    const { at } = await worker.begin(runId);
    expect(await worker.call('advance', at)).toMatchObject({ kind: 'rests', state: 'succeeded', why: 'ended well' });
    expect((await worker.attempts(runId)).map(({ node, seq }) => [seq, node])).toEqual([
      [1, 'start'],
      [2, 'a'],
      [3, 'finish'],
    ]);
  });

  test('a stopping worker gives the run back as it stands', async () => {
    const { runId } = await startRun(onward, await publish(onward, line(tag('a'), send('call'))));
    const { at, replies } = await worker.begin(runId);
    const { runId: id, claimId } = at;
    const closed = await worker.frame(
      ['update', { ...at, n: 1, outcome: replies.at(-1)?.['outcome'] }],
      ['advance', at],
      ['wait', { runId: id, claimId, release: 'stopping' }],
    );
    expect(closed.at(-1)).toMatchObject({ kind: 'rests', state: 'pending' });
    expect(await worker.run(runId)).toMatchObject({ state: 'pending', node: 'call', seq: 3, takeovers: 0 });
  });

  test('a repeat of notify-failed changes nothing', async () => {
    const { runId } = await startRun(onward, await publish(onward, line(send('call')), { reentry: 'always', notify: ['ops@example.test'] }));
    const { at } = await worker.begin(runId);
    await worker.frame(['update', { ...at, n: 1, outcome: never }], ['fail', at]);
    expect(await worker.call('notify-failed', at)).toEqual({ kind: 'notified', sent: true });
    expect(await worker.call('notify-failed', at)).toEqual({ kind: 'notified', sent: false });
    expect(await rows(onward.source, `SELECT to_mailbox ->> 'address' AS address FROM messages WHERE notice_id IS NOT NULL AND subject LIKE '%call%'`)).toEqual(
      [{ address: 'ops@example.test' }],
    );
  });
});

describe('the step cap', () => {
  test('ends a run that loops through a wait as failed, naming the node', async () => {
    const graph: Graph = {
      nodes: [{ id: 'start', type: 'trigger', config: { type: 'manual' } }, wait('rest', 0), tag('again')],
      edges: [
        { from: 'start', to: 'rest' },
        { from: 'rest', to: 'again' },
        { from: 'again', to: 'rest' },
      ],
    };
    const { runId } = await startRun(onward, await publish(onward, graph));
    for (let turn = 0; turn < 40 && (await worker.run(runId)).state !== 'failed'; turn += 1) {
      const { at } = await worker.begin(runId);
      const { state, node } = await worker.run(runId);
      if (state === 'running') await worker.call(node === 'rest' ? 'wait' : 'advance', at);
    }
    expect(await worker.run(runId)).toMatchObject({ state: 'failed', endReason: 'step_cap' });
    const attempts = await worker.attempts(runId);
    expect(attempts.at(-1)?.failure?.message).toContain('"again"');
    expect(attempts.filter(({ status }) => status === 'done')).toHaveLength(30);
  });

  test('ends a bare loop that was put into the database, in one checkpoint', async () => {
    const workflowId = await publish(onward, line(tag('a')));
    const loop = { match: 'all', tests: [{ field: 'contact.email', op: 'exists' }] };
    const graph: Graph = {
      nodes: [
        { id: 'start', type: 'trigger', config: { type: 'manual' } },
        { id: 'one', type: 'condition', config: loop },
        { id: 'two', type: 'condition', config: loop },
      ],
      edges: [
        { from: 'start', to: 'one' },
        { from: 'one', port: 'true', to: 'two' },
        { from: 'two', port: 'true', to: 'one' },
      ],
    };
    await change(onward.source, 'UPDATE workflow_versions SET graph = $2 WHERE workflow_id = $1', [workflowId, JSON.stringify(graph)]);
    const { runId } = await startRun(onward, workflowId);
    const { replies } = await worker.begin(runId);
    expect(replies).toMatchObject([{ kind: 'rests', state: 'failed' }]);
    expect(await worker.run(runId)).toMatchObject({ state: 'failed', endReason: 'step_cap' });
  });
});
