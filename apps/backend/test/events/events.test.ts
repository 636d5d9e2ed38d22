import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { change, rows } from '../../src/database/sql.js';
import { type BackendForTest, backendForTest } from '../backend-for-test.js';
import { type Graph, HandWorker, line, publish, tag, wait } from '../runtime/hand-worker.js';

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

type Accepted = {
  id: string;
  contactId: string | null;
  isRepeated: boolean;
  runs: { workflowId: string; runId: string }[];
  refusals: { workflowId: string; reason: string }[];
};
const emit = (event: Record<string, unknown>) => onward.api<Accepted>('POST', '/events', event);

function onEvent(event: string, graph: Graph = line(tag('a')), filter?: object): Graph {
  const [start, ...others] = graph.nodes;
  return { ...graph, nodes: [{ id: start?.id ?? 'start', type: 'trigger', config: { type: 'event', event, ...(filter ? { filter } : {}) } }, ...others] };
}

test('an accepted event has one pending run for each active workflow that matches, committed with it', async () => {
  const matching = [await publish(onward, onEvent('a.one')), await publish(onward, onEvent('a.one'))].sort();
  await publish(onward, onEvent('a.other'));
  const filter = { tests: [{ field: 'event.total', op: 'equals', value: 7 }] };
  const filtered = await publish(onward, onEvent('a.one', line(tag('a')), filter));
  const { status, body } = await emit({ type: 'a.one', contact: { email: 'One@Example.test' }, payload: { total: 8 } });
  expect(status).toBe(201);
  expect(body.runs.map(({ workflowId }) => workflowId)).toEqual(matching);
  expect(body.refusals).toEqual([]);
  expect(
    (await emit({ type: 'a.one', contact: { email: 'two@example.test' }, payload: { total: 7 } })).body.runs.map(({ workflowId }) => workflowId),
  ).toContain(filtered);
  const [contact] = await rows<{ email: string }>(onward.source, 'SELECT email FROM contacts WHERE id = $1', [body.contactId]);
  expect(contact?.email).toBe('one@example.test');
});

test('the same id sent again gives the same answer and starts nothing; with another body it is a conflict', async () => {
  await publish(onward, onEvent('b.one'));
  const event = { id: 'order-17', type: 'b.one', contact: { email: 'b@example.test' }, payload: { a: 1, b: 2 } };
  const first = await emit(event);
  const second = await emit({ ...event, payload: { b: 2, a: 1 } });
  expect(second.status).toBe(200);
  expect(second.body).toEqual({ ...first.body, isRepeated: true });
  const other = await emit({ ...event, payload: { a: 2 } });
  expect(other.status).toBe(409);
  expect(other.body).toMatchObject({ errors: [{ path: 'id' }] });
  expect(await rows(onward.source, `SELECT 1 FROM runs WHERE event_id = 'order-17'`)).toHaveLength(1);
});

test('twenty copies of one event at once start one run', async () => {
  await publish(onward, onEvent('b.many'));
  const event = { id: 'many', type: 'b.many', contact: { email: 'many@example.test' }, payload: {} };
  const answers = await Promise.all(Array.from({ length: 20 }, () => emit(event)));
  expect(answers.filter(({ status }) => status === 201)).toHaveLength(1);
  expect(new Set(answers.map(({ body }) => body.runs[0]?.runId)).size).toBe(1);
});

test('one broken workflow among twenty: the emitter succeeds, nineteen runs start, the refusal is recorded', async () => {
  const ids: string[] = [];
  for (let nth = 0; nth < 20; nth += 1) ids.push(await publish(onward, onEvent('c.twenty')));
  const [broken = ''] = ids;
  const ways = {
    'a filter that is none': `UPDATE workflows SET trigger = trigger || '{"filter": {"tests": "nonsense"}}' WHERE id = $1`,
    'a version that is not there': `UPDATE workflows SET trigger = trigger - 'filter', version_id = '01960000-0000-7000-8000-000000000000' WHERE id = $1`,
  };
  for (const [what, sql] of Object.entries(ways)) {
    await change(onward.source, sql, [broken]);
    const { status, body } = await emit({ type: 'c.twenty', contact: { email: `${what.replaceAll(' ', '-')}@example.test` }, payload: {} });
    expect([what, status, body.runs.length]).toEqual([what, 201, 19]);
    expect(body.refusals).toEqual([{ workflowId: broken, reason: 'workflow_broken' }]);
    const [kept] = await rows<{ detail: string }>(onward.source, 'SELECT detail FROM run_refusals WHERE event_id = $1', [body.id]);
    expect(kept?.detail).not.toBe('');
  }
});

describe('re-entry', () => {
  const again = (settings: object) =>
    publish(onward, onEvent(`d.${JSON.stringify(settings).length}`, line(wait('rest', '1d'), tag('a'))), settings as Record<string, unknown>);
  const enter = (settings: object, id: string) =>
    emit({ id, type: `d.${JSON.stringify(settings).length}`, contact: { email: 'again@example.test' }, payload: {} });

  test('F28 (in part): after finishing, a second event is refused while the first run lives, and accepted after it', async () => {
    const settings = { reentry: 'after_finishing' };
    await again(settings);
    const first = await enter(settings, 'd1');
    const second = await enter(settings, 'd2');
    expect(second.body).toMatchObject({ runs: [], refusals: [{ reason: 'reentry_running' }] });
    await onward.api('POST', `/runs/${first.body.runs[0]?.runId}/cancel`);
    expect((await enter(settings, 'd3')).body.runs).toHaveLength(1);
  });

  test('F28 (in part): never means once, also after the first run has ended', async () => {
    const settings = { reentry: 'never' };
    await again(settings);
    const first = await enter(settings, 'n1');
    await onward.api('POST', `/runs/${first.body.runs[0]?.runId}/cancel`);
    expect((await enter(settings, 'n2')).body).toMatchObject({ runs: [], refusals: [{ reason: 'reentry_never' }] });
  });

  test('F28 (in part): always means a run each time', async () => {
    const settings = { reentry: 'always' };
    await again(settings);
    expect([(await enter(settings, 'a1')).body.runs.length, (await enter(settings, 'a2')).body.runs.length]).toEqual([1, 1]);
  });
});

test('Onward’s own events start journeys, and journeys that set each other off end after ten', async () => {
  const follow = (event: string) =>
    publish(onward, onEvent(event, line({ id: 'a', type: 'action', config: { action: 'UPDATE_CONTACT', with: { attributes: { seen: '{{ run.id }}' } } } })));
  const workflowId = await follow('contact.updated');
  const made = await onward.api<{ id: string }>('POST', '/contacts', { email: 'chain@example.test' });
  await onward.api('PATCH', `/contacts/${made.body.id}`, { attributes: { plan: 'pro' } });
  for (let turn = 0; turn < 15; turn += 1) {
    const pending = await rows<{ id: string }>(onward.source, `SELECT id FROM runs WHERE workflow_id = $1 AND state = 'pending'`, [workflowId]);
    for (const { id } of pending) {
      const { at } = await worker.begin(id);
      await worker.call('advance', at);
    }
  }
  const runs = await rows(onward.source, 'SELECT 1 FROM runs WHERE workflow_id = $1', [workflowId]);
  expect(runs).toHaveLength(11);
  expect(await rows(onward.source, 'SELECT reason FROM run_refusals WHERE workflow_id = $1', [workflowId])).toEqual([{ reason: 'event_chain_too_deep' }]);
});

/** A cursor of the right shape whose instant Postgres cannot read. */
const YEAR_0 = Buffer.from('["0000-01-01T00:00:00.000000Z","01a229b6-45a1-709f-9fc8-8d84b9997d91"]').toString('base64url');

describe('bad input', () => {
  const refusals: [string, unknown, number, string | null][] = [
    ['malformed JSON', '{"type":', 400, null],
    ['an unknown field', { type: 'x.y', payload: {}, colour: 'red' }, 400, 'colour'],
    ['a wrong type', { type: 7, payload: {} }, 400, 'type'],
    ['no type', { payload: {} }, 400, 'type'],
    ['a type that is none', { type: 'a b', payload: {} }, 400, 'type'],
    ['a contact without identity', { type: 'x.y', contact: {}, payload: {} }, 400, 'contact'],
    ['an address that is none', { type: 'x.y', contact: { email: 'a@b@c' }, payload: {} }, 400, 'contact.email'],
    ['an instant that is none', { type: 'x.y', occurredAt: '2026-02-30T00:00:00Z' }, 400, 'occurredAt'],
    ['an instant that no calendar shows', { type: 'x.y', occurredAt: '9999-12-31T23:59:59-23:59' }, 400, 'occurredAt'],
    ['an instant of the year 0', { type: 'x.y', occurredAt: '0000-01-01T00:00:00Z' }, 400, 'occurredAt'],
    ['an id with a space', { id: 'a b', type: 'x.y' }, 400, 'id'],
    ['a body that is too large', { type: 'x.y', payload: { text: 'x'.repeat(300_000) } }, 413, null],
    ['a NUL, which the database cannot hold', { type: 'x.y', payload: { text: 'a\u0000b' } }, 400, null],
    ['a bare list', [], 400, null],
  ];

  test.each(refusals)('%s is refused with a problem naming the field, and nothing is stored', async (_what, body, status, field) => {
    const before = await rows(onward.source, 'SELECT count(*) FROM events');
    const answer = await onward.api<{ type: string; errors?: { path: string }[] }>(
      'POST',
      '/events',
      body,
      typeof body === 'string' ? { headers: { 'content-type': 'application/json' } } : {},
    );
    expect(answer.status).toBe(status);
    expect(answer.headers.get('content-type')).toContain('application/problem+json');
    expect(answer.body.type).toMatch(/^urn:onward:error:/);
    if (field) expect(answer.body.errors?.map(({ path }) => path)).toContain(field);
    expect(await rows(onward.source, 'SELECT count(*) FROM events')).toEqual(before);
  });

  test('unknown ids and cursors that nobody gave are refused', async () => {
    expect((await onward.api('GET', '/events/nobody')).status).toBe(404);
    expect((await onward.api('GET', '/runs/01960000-0000-7000-8000-000000000000')).status).toBe(404);
    expect((await onward.api('GET', '/runs/not-a-uuid')).status).toBe(400);
    for (const list of ['/events', '/runs', '/dead-letters', '/run-refusals', '/contacts', '/workflows', '/messages', '/templates', '/lists', '/api-keys']) {
      expect([list, (await onward.api('GET', `${list}?cursor=garbage`)).status]).toEqual([list, 400]);
      expect([list, (await onward.api('GET', `${list}?cursor=${YEAR_0}`)).status]).toEqual([list, 400]);
      expect([list, (await onward.api('GET', `${list}?limit=0`)).status]).toEqual([list, 400]);
      expect([list, (await onward.api('GET', `${list}?colour=red`)).status]).toEqual([list, 400]);
    }
  });

  test('F06: keys of the prototype in a body change nothing for anybody', async () => {
    const raw = '{"type":"p.one","contact":{"email":"p@example.test"},"payload":{"__proto__":{"polluted":"1"},"constructor":{"prototype":{"polluted":"1"}}}}';
    const { status } = await onward.api('POST', '/events', raw, { headers: { 'content-type': 'application/json' } });
    expect([201, 400]).toContain(status);
    expect(({} as Record<string, unknown>)['polluted']).toBeUndefined();
  });
});

test('F76 (in part): every one of 105 runs made at one instant is listed exactly once', async () => {
  const workflowId = await publish(onward, onEvent('f.page'));
  for (let nth = 0; nth < 105; nth += 1) await emit({ type: 'f.page', contact: { email: `page${nth}@example.test` }, payload: {} });
  await change(onward.source, `UPDATE runs SET created_at = '2026-01-01T00:00:00.123456Z' WHERE workflow_id = $1`, [workflowId]);
  const seen: string[] = [];
  let cursor: string | null = '';
  while (cursor !== null) {
    const page: { items: { id: string }[]; nextCursor: string | null } = (
      await onward.api<{ items: { id: string }[]; nextCursor: string | null }>(
        'GET',
        `/runs?workflowId=${workflowId}&limit=10${cursor ? `&cursor=${cursor}` : ''}`,
      )
    ).body;
    seen.push(...page.items.map(({ id }) => id));
    cursor = page.nextCursor;
  }
  expect(seen).toHaveLength(105);
  expect(new Set(seen).size).toBe(105);
});
