import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { newId } from '../../src/database/new-id.js';
import { change, rows } from '../../src/database/sql.js';
import { type BackendForTest, backendForTest } from '../backend-for-test.js';
import { type Graph, HandWorker, line, publish, send, startRun, tag } from '../runtime/hand-worker.js';

let onward: BackendForTest;
let worker: HandWorker;
beforeAll(async () => {
  onward = await backendForTest({ AUTOMATIONS_LEASE_MS: '60000' });
  worker = new HandWorker(onward);
});
afterAll(async () => {
  worker?.close();
  await onward?.close();
});

const STOP = { uncertain: 'stop' };
const late = { kind: 'failed', failure: { code: 'timeout', message: 'no answer', detail: { mayHaveBeenSent: true } } } as const;
/** `at`: the attempt that the answer is about; every run here comes to its send as the second step. */
const resolve = (runId: string, happened: boolean, at = { seq: 2, n: 1 }) =>
  onward.api<{ history: Step[]; state: string; detail?: string; errors?: { path: string }[] }>('POST', `/runs/${runId}/resolve`, { ...at, happened });
type Step = { seq: number; n: number; node: string; status: string; replayOf: number | null; resolved: { happened: boolean; by: string; at: string } | null };
type Uncertain = {
  items: { kind: string; runId: string | null; messageId: string | null; node: string | null; resolved: object | null }[];
  nextCursor: string | null;
};
const listed = async (query = '') => (await onward.api<Uncertain>('GET', `/uncertain-outcomes${query}`)).body;
const requestOf = (runId: string) =>
  rows<{ seq: number; key: string; request: unknown }>(
    onward.source,
    'SELECT seq, idempotency_key AS key, request FROM outbound_requests WHERE run_id = $1 ORDER BY seq',
    [runId],
  );

/** A run given up at its send, of which nobody knows whether it happened. */
async function givenUp(graph: Graph = line(send('call', STOP), tag('b'))): Promise<string> {
  const { runId } = await startRun(onward, await publish(onward, graph));
  await giveUp(runId);
  return runId;
}

async function giveUp(runId: string, outcome: object = late): Promise<void> {
  const { at } = await worker.begin(runId);
  const answers = await worker.frame(['update', { ...at, n: 1, outcome }], ['dead-letter', at]);
  expect(answers).toMatchObject([{ kind: 'recorded', verb: 'dead-letter' }, { state: 'dead_lettered' }]);
}

describe('under the policy stop', () => {
  test('a send that left and was not answered is recorded as uncertain, and one that never left as failed', async () => {
    const runId = await givenUp();
    expect((await worker.attempts(runId)).at(-1)).toMatchObject({ node: 'call', status: 'uncertain', failure: { code: 'timeout' }, verb: 'dead-letter' });

    const { runId: other } = await startRun(onward, await publish(onward, line(send('call', STOP))));
    const { at } = await worker.begin(other);
    const unsent = { kind: 'failed', failure: { ...late.failure, detail: { mayHaveBeenSent: false } } };
    expect(await worker.frame(['update', { ...at, n: 1, outcome: unsent }], ['retry', at])).toMatchObject([{ verb: 'retry' }, { state: 'retrying' }]);
    expect((await worker.attempts(other)).at(-1)).toMatchObject({ status: 'failed' });
  });
});

describe('a run given up at an uncertain request', () => {
  test('of an archived workflow stays as it is, whether it is resolved or replayed', async () => {
    const workflowId = await publish(onward, line(send('call', STOP), tag('b')));
    const { runId } = await startRun(onward, workflowId);
    await giveUp(runId);
    for (const word of ['pause', 'archive']) expect((await onward.api('POST', `/workflows/${workflowId}/${word}`)).status).toBe(200);
    expect((await resolve(runId, true)).status).toBe(409);
    expect((await resolve(runId, false)).status).toBe(409);
    expect((await onward.api('POST', `/runs/${runId}/replay`, {})).status).toBe(409);
    expect(await worker.run(runId)).toMatchObject({ state: 'dead_lettered' });
  });

  test('that happened goes on behind it: what was said is kept, and nothing is sent again', async () => {
    const runId = await givenUp();
    const { status, body } = await resolve(runId, true);
    expect(status).toBe(200);
    expect(body.state).toBe('pending');
    expect(body.history.slice(-2)).toMatchObject([
      { seq: 2, node: 'call', status: 'uncertain', resolved: { happened: true, by: 'API key tests', at: expect.any(String) } },
      { seq: 3, node: 'b', status: 'open', replayOf: 2, resolved: null },
    ]);
    const { at, replies } = await worker.begin(runId);
    expect(replies.at(-1)).toMatchObject({ kind: 'outcome', outcome: { kind: 'done' } });
    expect(await worker.call('advance', at)).toMatchObject({ state: 'succeeded' });
    expect(await requestOf(runId)).toHaveLength(1);
  });

  test('that happened and was the last thing to do ends well when it is taken up', async () => {
    const runId = await givenUp(line(send('call', STOP)));
    expect((await resolve(runId, true)).status).toBe(200);
    const { claimId } = await worker.run(runId);
    expect(await worker.call('prepare', { runId, claimId, callId: 1 })).toMatchObject({ kind: 'rests', state: 'succeeded' });
    expect((await worker.attempts(runId)).map(({ node, seq, status }) => [seq, node, status])).toEqual([
      [1, 'start', 'done'],
      [2, 'call', 'uncertain'],
      [3, 'finish', 'done'],
    ]);
  });

  test('that did not happen is sent again with the same key and body', async () => {
    const runId = await givenUp();
    const { status, body } = await resolve(runId, false);
    expect([status, body.state]).toEqual([200, 'pending']);
    expect(body.history.slice(-2)).toMatchObject([
      { seq: 2, node: 'call', status: 'uncertain', resolved: { happened: false } },
      { seq: 3, node: 'call', status: 'open', replayOf: 2 },
    ]);
    const { replies } = await worker.begin(runId);
    const [first, second] = await requestOf(runId);
    expect(second).toEqual({ ...first, seq: 3 });
    expect(replies.at(-1)).toMatchObject({ kind: 'send', request: first?.request });
  });

  test('is resolved once: the same answer again changes nothing, the other one is a conflict', async () => {
    const runId = await givenUp();
    await resolve(runId, true);
    const before = await worker.run(runId);
    expect((await resolve(runId, true)).status).toBe(200);
    expect(await worker.run(runId)).toEqual(before);
    const { status, body } = await resolve(runId, false);
    expect([status, body.detail]).toEqual([409, expect.stringContaining('was resolved before, as happened')]);
    expect(await worker.run(runId)).toEqual(before);
  });

  test('and sent again to no better end: an answer about the first send is none about the second', async () => {
    const runId = await givenUp();
    await resolve(runId, false);
    await giveUp(runId);
    const before = await worker.run(runId);
    expect((await resolve(runId, false)).status).toBe(200);
    expect(await resolve(runId, true)).toMatchObject({ status: 409, body: { detail: expect.stringContaining('was resolved before, as not happened') } });
    expect(await resolve(runId, true, { seq: 3, n: 2 })).toMatchObject({ status: 409, body: { errors: [{ path: 'seq' }] } });
    expect(await worker.run(runId)).toEqual(before);
    expect((await listed()).items.find((item) => item.runId === runId)).toMatchObject({ seq: 3, n: 1 });
    expect(await resolve(runId, true, { seq: 3, n: 1 })).toMatchObject({ status: 200, body: { state: 'pending' } });
  });

  test('and replayed to no better end: nothing can be said any more about the first send', async () => {
    const runId = await givenUp();
    await onward.api('POST', `/runs/${runId}/replay`, {});
    await giveUp(runId);
    for (const happened of [true, false]) expect(await resolve(runId, happened)).toMatchObject({ status: 409, body: { errors: [{ path: 'seq' }] } });
    expect(await worker.run(runId)).toMatchObject({ state: 'dead_lettered', seq: 3 });
  });

  test('is listed without the credentials in its failure', async () => {
    const { runId } = await startRun(onward, await publish(onward, line(send('call', STOP))));
    const detail = { mayHaveBeenSent: true, token: 'canary', location: 'https://a.example.test/?access_token=canary' };
    await giveUp(runId, { ...late, failure: { ...late.failure, detail } });
    const shown = JSON.stringify((await listed()).items.find((item) => item.runId === runId));
    expect(shown).toContain('mayHaveBeenSent');
    expect(shown).not.toContain('canary');
  });

  test('with nothing drawn behind it cannot be said to have happened, but can be sent again', async () => {
    const runId = await givenUp();
    const [version] = await rows<{ id: string; workflowId: string }>(
      onward.source,
      'SELECT version_id AS id, workflow_id AS "workflowId" FROM runs WHERE id = $1',
      [runId],
    );
    const cut = newId();
    await change(
      onward.source,
      `INSERT INTO workflow_versions SELECT (jsonb_populate_record(v, jsonb_build_object('id', $2::text, 'number', 99, 'graph', jsonb_set(v.graph, '{edges}',
         (SELECT jsonb_agg(edge) FROM jsonb_array_elements(v.graph -> 'edges') AS edge WHERE edge ->> 'from' <> 'call'))))).* FROM workflow_versions v WHERE id = $1`,
      [version?.id, cut],
    );
    await change(onward.source, 'UPDATE runs SET version_id = $2 WHERE id = $1', [runId, cut]);
    const { status, body } = await resolve(runId, true);
    expect([status, body.detail]).toEqual([422, expect.stringContaining('call')]);
    expect(await worker.run(runId)).toMatchObject({ state: 'dead_lettered', seq: 2 });
    expect((await resolve(runId, false)).status).toBe(200);
  });

  test('is still sent again by a plain replay, under the same key', async () => {
    const runId = await givenUp();
    expect((await onward.api('POST', `/runs/${runId}/replay`, {})).status).toBe(200);
    expect((await requestOf(runId)).map(({ key }) => key)).toEqual(Array(2).fill((await requestOf(runId))[0]?.key));
  });
});

test('a cancelled run whose send was under way stays ended, and only the answer is kept', async () => {
  const { runId } = await startRun(onward, await publish(onward, line(send('call'), tag('b'))));
  const { at } = await worker.begin(runId);
  await onward.api('POST', `/runs/${runId}/cancel`);
  await worker.call('wait', { ...at, release: 'stopping' });
  expect((await listed()).items.map((item) => item.runId)).toContain(runId);
  const { status, body } = await resolve(runId, true);
  expect([status, body.state]).toEqual([200, 'cancelled']);
  expect(body.history.at(-1)).toMatchObject({ node: 'call', status: 'uncertain', resolved: { happened: true } });
  expect((await listed()).items.map((item) => item.runId)).not.toContain(runId);
});

test.each<[string, () => Promise<string>]>([
  ['that is pending', async () => (await startRun(onward, await publish(onward, line(tag('a'))))).runId],
  [
    'that was given up at a failure',
    async () => {
      const { runId } = await startRun(onward, await publish(onward, line(send('call'))));
      const { at } = await worker.begin(runId);
      await worker.frame(['update', { ...at, n: 1, outcome: { kind: 'failed', failure: { code: 'http_permanent', message: '404' } } }], ['fail', at]);
      return runId;
    },
  ],
  [
    'whose uncertain request was recorded and is not yet acted on',
    async () => {
      const { runId } = await startRun(onward, await publish(onward, line(send('call'))));
      const { at } = await worker.begin(runId);
      await worker.call('update', { ...at, n: 1, outcome: { ...late, kind: 'uncertain' } });
      return runId;
    },
  ],
  [
    'that will repeat its uncertain request by itself',
    async () => {
      const { runId } = await startRun(onward, await publish(onward, line(send('call'))));
      const { at } = await worker.begin(runId);
      await worker.frame(['update', { ...at, n: 1, outcome: { ...late, kind: 'uncertain' } }], ['retry', at]);
      return runId;
    },
  ],
])('a run %s cannot be resolved and is not listed', async (_what, layOut) => {
  const runId = await layOut();
  expect([(await resolve(runId, true)).status, (await resolve(runId, false)).status]).toEqual([409, 409]);
  expect((await listed()).items.map((item) => item.runId)).not.toContain(runId);
});

test('an unknown run is not found, and an answer that is none is refused by its field', async () => {
  expect((await resolve(newId(), true)).status).toBe(404);
  const { status, body } = await onward.api<{ errors: { path: string }[] }>('POST', `/runs/${newId()}/resolve`, { happened: 'maybe' });
  expect(status).toBe(400);
  expect(body.errors.map(({ path }) => path).sort()).toEqual(['happened', 'n', 'seq']);
});

describe('an uncertain message', () => {
  async function message(state = 'uncertain'): Promise<{ id: string; runId: string }> {
    const { runId, contactId } = await startRun(onward, await publish(onward, line(tag('a'))));
    const id = newId();
    await change(
      onward.source,
      `INSERT INTO messages (id, run_id, seq, contact_id, is_transactional, state, try, uncertain_tries, message_id_header, from_mailbox, to_mailbox, subject, text, ended_at)
       VALUES ($1, $2, 1, $3, false, $4, 2, 2, '<x@example.test>', '{"name":"","address":"onward@example.test"}', '{"name":"","address":"ada@example.test"}', 'Hi', 'Hello', now())`,
      [id, runId, contactId, state],
    );
    return { id, runId };
  }
  const say = (id: string, delivered: boolean) =>
    onward.api<{ state: string; response: string | null; failure: object | null; resolved: object }>('POST', `/messages/${id}/resolve`, { delivered });

  test.each([
    [true, { state: 'sent', response: 'API key tests says that it was delivered', failure: null }],
    [false, { state: 'failed', response: null, failure: { code: 'mail_uncertain', message: 'API key tests says that it was not delivered' } }],
  ])('that was delivered: %s, is known as such, its run is left alone and shows it', async (delivered, expected) => {
    const { id, runId } = await message();
    const before = await worker.run(runId);
    expect((await listed()).items).toContainEqual(expect.objectContaining({ kind: 'mail', messageId: id, runId }));
    expect(await say(id, delivered)).toMatchObject({ status: 200, body: { ...expected, resolved: { happened: delivered, by: 'API key tests' } } });
    expect(await worker.run(runId)).toEqual(before);
    const { body: run } = await onward.api<{ messages: object[] }>('GET', `/runs/${runId}`);
    expect(run.messages).toMatchObject([{ id, state: expected.state, resolved: { happened: delivered } }]);
    expect((await listed()).items.map(({ messageId }) => messageId)).not.toContain(id);
    expect((await listed('?resolved=true')).items).toContainEqual(
      expect.objectContaining({ messageId: id, resolved: expect.objectContaining({ happened: delivered }) }),
    );
    expect((await say(id, delivered)).status).toBe(200);
    expect((await say(id, !delivered)).status).toBe(409);
  });

  test.each(['prepared', 'sent', 'failed', 'skipped'])('must be one: of a message that is %s nothing can be said', async (state) => {
    const { id } = await message(state);
    expect([(await say(id, true)).status, (await say(id, false)).status]).toEqual([409, 409]);
  });
});

test('resolved messages are found without reading all messages', async () => {
  const plan = await onward.source.transaction(async (tx) => {
    await tx.query('SET LOCAL enable_seqscan = off');
    return JSON.stringify(await tx.query('EXPLAIN SELECT id FROM messages WHERE resolved IS NOT NULL'));
  });
  expect(plan).toContain('messages_resolved');
});

test('the list goes on page by page, requests and mails together, and each is there once', async () => {
  const all = (await listed('?limit=200')).items;
  expect(all.length).toBeGreaterThanOrEqual(1);
  await givenUp();
  await givenUp();
  const whole = (await listed('?limit=200')).items;
  const paged: typeof whole = [];
  for (let cursor: string | null = ''; cursor !== null; ) {
    const page: Uncertain = await listed(`?limit=1${cursor ? `&cursor=${cursor}` : ''}`);
    paged.push(...page.items);
    cursor = page.nextCursor;
  }
  expect(paged).toEqual(whole);
  expect(whole).toHaveLength(all.length + 2);
});
