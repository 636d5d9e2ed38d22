import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { rows } from '../../src/database/sql.js';
import { type BackendForTest, backendForTest } from '../backend-for-test.js';
import { type Graph, HandWorker, line, publish, startRun, tag } from '../runtime/hand-worker.js';

let onward: BackendForTest;
let worker: HandWorker;
beforeAll(async () => {
  onward = await backendForTest({ AUTOMATIONS_SWEEP_INTERVAL_MS: '1000000', AUTOMATIONS_LEASE_MS: '60000' });
  worker = new HandWorker(onward);
});
afterAll(async () => {
  worker?.close();
  await onward?.close();
});

type Test = { field: string; op: string; value?: unknown };

function fork(test: Test): Graph {
  return {
    nodes: [
      { id: 'start', type: 'trigger', config: { type: 'manual' } },
      { id: 'ask', type: 'condition', config: { tests: [test] } },
      tag('yes'),
      tag('no'),
      { id: 'finish', type: 'end' },
    ],
    edges: [
      { from: 'start', to: 'ask' },
      { from: 'ask', port: 'true', to: 'yes' },
      { from: 'ask', port: 'false', to: 'no' },
      { from: 'yes', to: 'finish' },
      { from: 'no', to: 'finish' },
    ],
  };
}

/** The way that a run of this contact takes, as a worker is told it. */
async function wayOf(attributes: string, test: Test): Promise<unknown> {
  const workflowId = await publish(onward, fork(test));
  const email = `${Math.random()}@example.test`;
  const made = await onward.api('POST', '/contacts', `{"email":"${email}","attributes":${attributes}}`, { headers: { 'content-type': 'application/json' } });
  expect(made.status).toBe(201);
  const started = await onward.api<{ results: { runId: string }[] }>('POST', '/runs', { workflowId, contacts: [{ email }] });
  const { replies } = await worker.begin(started.body.results[0]?.runId ?? '');
  return replies[0]?.['node'];
}

describe('F06: prototype names as keys', () => {
  test.each(['constructor', 'toString', '__proto__.polluted', 'hasOwnProperty', '__proto__', 'constructor.prototype', 'valueOf.name'])(
    'F06: "%s exists" is No for a contact without attributes',
    async (name) => {
      expect(await wayOf('{}', { field: `contact.attributes.${name}`, op: 'exists' })).toBe('no');
      expect(await wayOf('{}', { field: `contact.attributes.${name}`, op: 'not_exists' })).toBe('yes');
    },
  );

  test('F06: an attribute of the contact’s own that is named toString and equals "x" is Yes', async () => {
    const test = { field: 'contact.attributes.toString', op: 'equals', value: 'x' };
    expect(await wayOf('{"toString":"x"}', test)).toBe('yes');
    expect(await wayOf('{"toString":"y"}', test)).toBe('no');
    expect(await wayOf('{"constructor":"x"}', { field: 'contact.attributes.constructor', op: 'exists' })).toBe('yes');
  });

  test('F06: a template that asks for such a name writes nothing in its place', async () => {
    const attributes = { seen: '[{{ contact.attributes.constructor.name }}{{ contact.attributes.__proto__ }}{{ contact.attributes.toString }}]' };
    const { runId, contactId } = await startRun(
      onward,
      await publish(onward, line({ id: 'a', type: 'action', config: { action: 'UPDATE_CONTACT', with: { attributes } } })),
    );
    await worker.begin(runId);
    expect(await rows(onward.source, `SELECT attributes ->> 'seen' AS seen FROM contacts WHERE id = $1`, [contactId])).toEqual([{ seen: '[]' }]);
  });

  test.each([
    ['at the top', '{"type":"p.one","contact":{"email":"p@example.test"},"payload":{},"__proto__":{"polluted":"1"}}', '__proto__'],
    [
      'in the payload',
      '{"type":"p.one","contact":{"email":"p@example.test"},"payload":{"__proto__":{"polluted":"1"},"constructor":{"prototype":{"polluted":"1"}}}}',
      'payload.__proto__',
    ],
    [
      'in the attributes',
      '{"type":"p.one","contact":{"email":"p@example.test","attributes":{"__proto__":{"polluted":"1"}}},"payload":{}}',
      'contact.attributes.__proto__',
    ],
    ['in a list', '{"type":"p.one","contact":{"email":"p@example.test"},"payload":{"a":[{"__proto__":1}]}}', 'payload.a.0.__proto__'],
    ['spelled with escapes', '{"type":"p.one","contact":{"email":"p@example.test"},"payload":{"\\u005f_proto__":1}}', 'payload.__proto__'],
  ])('F06: an event with __proto__ %s is a 400 that names it, and nothing is stored', async (_where, raw, path) => {
    const counts = () => rows(onward.source, 'SELECT (SELECT count(*) FROM events) AS events, (SELECT count(*) FROM contacts) AS contacts');
    const before = await counts();
    const answer = await onward.api<{ errors: { path: string }[] }>('POST', '/events', raw, { headers: { 'content-type': 'application/json' } });
    expect(answer.status).toBe(400);
    expect(answer.body.errors.map((error) => error.path)).toEqual([path]);
    expect(await counts()).toEqual(before);
    expect(({} as Record<string, unknown>)['polluted']).toBeUndefined();
  });

  test('F06: a payload with "constructor" is kept as it came, and the next contact is not touched by it', async () => {
    const raw = '{"id":"p-two","type":"p.two","contact":{"email":"p2@example.test"},"payload":{"constructor":{"prototype":{"polluted":"1"}}}}';
    expect((await onward.api('POST', '/events', raw, { headers: { 'content-type': 'application/json' } })).status).toBe(201);
    expect(await rows(onward.source, `SELECT payload FROM events WHERE id = 'p-two'`)).toEqual([
      { payload: { constructor: { prototype: { polluted: '1' } } } },
    ]);
    expect(({} as Record<string, unknown>)['polluted']).toBeUndefined();
    expect(await wayOf('{}', { field: 'contact.attributes.polluted', op: 'exists' })).toBe('no');
  });
});
