import pg from 'pg';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { rows } from '../../src/database/sql.js';
import { reentryKeyOf } from '../../src/runs/reentry-key.js';
import { type BackendForTest, backendForTest } from '../backend-for-test.js';
import { line, publish, tag, wait } from '../runtime/hand-worker.js';

let onward: BackendForTest;
let gate: pg.Client;
beforeAll(async () => {
  onward = await backendForTest({ AUTOMATIONS_SWEEP_INTERVAL_MS: '1000000', AUTOMATIONS_LEASE_MS: '60000' });
  gate = new pg.Client({ connectionString: onward.databaseUrl });
  await gate.connect();
});
afterAll(async () => {
  await gate?.end();
  await onward?.close();
});

type Accepted = { runs: { workflowId: string; runId: string }[]; refusals: { workflowId: string; reason: string }[] };
const emit = (event: Record<string, unknown>) => onward.api<Accepted>('POST', '/events', event);

function onEvent(event: string) {
  const graph = line(wait('rest', '1d'), tag('a'));
  return { ...graph, nodes: graph.nodes.map((node) => (node.type === 'trigger' ? { ...node, config: { type: 'event', event } } : node)) };
}
async function contact(email: string): Promise<string> {
  return (await onward.api<{ id: string }>('POST', '/contacts', { email })).body.id;
}
const countOf = async (statement: string, parameters: unknown[] = []) => (await rows(onward.source, statement, parameters)).length;

/** Holds a lock while `work` is begun, until so many statements of the backend that write runs wait for it; then lets them all go on together. */
async function together<Result>(waiting: number, work: () => Promise<Result>): Promise<Result> {
  await gate.query('BEGIN');
  await gate.query('LOCK TABLE runs IN SHARE MODE');
  const working = work();
  try {
    await untilWaiting(waiting);
  } finally {
    await gate.query('COMMIT');
  }
  return working;
}

async function untilWaiting(count: number, what = 'INSERT INTO runs'): Promise<void> {
  const waiting = `SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'onward-backend' AND wait_event_type = 'Lock' AND query ~ '${what}'`;
  // A sweeper may wait for it as well.
  // Not asked by the gate: inside a transaction this view stands still.
  await expect.poll(() => countOf(waiting), { timeout: 4_000, interval: 10 }).toBe(count);
}

test('of events at once for one contact one starts its run and the others are refused, when one may enter only after finishing', async () => {
  const workflowId = await publish(onward, onEvent('one.each'), { reentry: 'after_finishing' });
  const id = await contact('one-each@example.test');
  // Two transactions, which is all that take events in at a time; the second holds what came while the first was begun.
  const answers = await together(2, () =>
    Promise.all([1, 2, 3, 4].map((nth) => emit({ id: `one-each-${nth}`, type: 'one.each', contact: { email: 'one-each@example.test' }, payload: {} }))),
  );
  expect(answers.map(({ status }) => status)).toEqual([201, 201, 201, 201]);
  expect(answers.flatMap(({ body }) => body.runs)).toHaveLength(1);
  expect(answers.flatMap(({ body }) => body.refusals)).toEqual(Array(3).fill({ workflowId, reason: 'reentry_running' }));
  expect(await countOf('SELECT 1 FROM runs WHERE workflow_id = $1 AND contact_id = $2', [workflowId, id])).toBe(1);
  expect(await countOf('SELECT 1 FROM run_refusals WHERE workflow_id = $1', [workflowId])).toBe(3);
});

test('of events at once for one contact one starts its run, ever, when one may never enter again', async () => {
  const workflowId = await publish(onward, onEvent('once.ever'), { reentry: 'never' });
  await contact('once-ever@example.test');
  const answers = await Promise.all(Array.from({ length: 8 }, () => emit({ type: 'once.ever', contact: { email: 'once-ever@example.test' }, payload: {} })));
  expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([201]));
  expect(answers.flatMap(({ body }) => body.runs)).toHaveLength(1);
  expect(answers.flatMap(({ body }) => body.refusals)).toEqual(Array(7).fill({ workflowId, reason: 'reentry_never' }));
});

test('an event that somebody else takes in at the same moment, with another body, is refused alone, and changes no contact', async () => {
  await publish(onward, onEvent('taken'), { reentry: 'always' });
  await gate.query('BEGIN');
  await gate.query(`INSERT INTO events (id, type, payload, body_hash, occurred_at) VALUES ('taken-1', 'taken', '{}', 'another', now())`);
  const events = ['taken-1', 'taken-2'].map((id) => ({ id, type: 'taken', contact: { email: `${id}@example.test` }, payload: {} }));
  const answering = onward.api<{ results: ({ status: number } & Accepted)[] }>('POST', '/events/batch', { events });
  try {
    await untilWaiting(1, 'INSERT INTO events');
  } finally {
    await gate.query('COMMIT');
  }
  const { results } = (await answering).body;
  expect(results.map(({ status }) => status)).toEqual([409, 201]);
  expect(await rows(onward.source, `SELECT event_id FROM runs WHERE event_id LIKE 'taken-%'`)).toEqual([{ event_id: 'taken-2' }]);
  expect(await rows(onward.source, `SELECT email FROM contacts WHERE email LIKE 'taken-%'`)).toEqual([{ email: 'taken-2@example.test' }]);
});

test('fifty events at once for fifty contacts start a run each in all three workflows', async () => {
  const workflows: string[] = [];
  for (let nth = 0; nth < 3; nth += 1) workflows.push(await publish(onward, onEvent('many.at.once'), { reentry: 'after_finishing' }));
  const answers = await Promise.all(
    Array.from({ length: 50 }, (_, nth) => emit({ type: 'many.at.once', contact: { email: `many${nth}@example.test` }, payload: {} })),
  );
  expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([201]));
  for (const { body } of answers) {
    expect(body.runs.map(({ workflowId }) => workflowId)).toEqual([...workflows].sort());
    expect(body.refusals).toEqual([]);
  }
  const pairs = await rows(onward.source, 'SELECT DISTINCT workflow_id, contact_id FROM runs WHERE workflow_id = ANY ($1)', [workflows]);
  expect(pairs).toHaveLength(150);
});

test('starts by hand that name the same contacts in opposite orders are both answered, and each contact enters once', async () => {
  type Started = { results: ({ runId: string } | { refused: string })[] };
  for (let nth = 0; nth < 5; nth += 1) {
    const workflowId = await publish(onward, line(wait('rest', '1d'), tag('a')), { reentry: 'after_finishing' });
    const ids: string[] = [];
    for (let each = 0; each < 20; each += 1) ids.push(await contact(`hand-${nth}-${each}@example.test`));
    const start = (contacts: string[]) => onward.api<Started>('POST', '/runs', { workflowId, contacts: contacts.map((id) => ({ id })) });
    const answers = await together(2, () => Promise.all([start(ids), start(ids.toReversed())]));
    expect(answers.map(({ status }) => status)).toEqual([201, 201]);
    const results = answers.flatMap(({ body }) => body.results);
    expect(results.filter((one) => 'runId' in one)).toHaveLength(20);
    expect(results.filter((one) => 'refused' in one && one.refused === 'reentry_running')).toHaveLength(20);
    expect(await countOf('SELECT 1 FROM runs WHERE workflow_id = $1', [workflowId])).toBe(20);
  }
});

test('a run started by hand says which API key started it', async () => {
  const workflowId = await publish(onward, line(tag('a')));
  const started = await onward.api<{ results: { runId: string }[] }>('POST', '/runs', { workflowId, withoutContact: true });
  const contexts = await rows(onward.source, `SELECT context ->> 'startedBy' AS by FROM run_contexts WHERE run_id = $1`, [started.body.results[0]?.runId]);
  expect(contexts).toEqual([{ by: 'API key tests' }]);
});

describe('in a database that is busy', () => {
  /** What is in somebody else's hands while the event comes in. */
  const busy: [string, lock: (contactId: string, workflowId: string) => Promise<unknown>][] = [
    ['the contact', (contactId) => gate.query('SELECT 1 FROM contacts WHERE id = $1 FOR UPDATE', [contactId])],
    [
      'the place of the run',
      (contactId, workflowId) =>
        gate.query(
          `INSERT INTO runs (id, claim_id, workflow_id, version_id, node, seq, state, due_at, reentry_key)
           SELECT gen_random_uuid(), gen_random_uuid(), id, version_id, 'start', 1, 'pending', onward_now(), $2 FROM workflows WHERE id = $1`,
          [workflowId, reentryKeyOf({ workflowId, contactId })],
        ),
    ],
    ['the version, which was not read yet', () => gate.query('LOCK TABLE workflow_versions IN ACCESS EXCLUSIVE MODE')],
  ];

  test.each(busy)('while somebody holds %s an event is a 503 that leaves nothing behind, and it is accepted when it is sent again', async (what, lock) => {
    const type = `busy.${what.replaceAll(/\W/g, '')}`;
    const email = `${type}@example.test`.toLowerCase();
    const workflowId = await publish(onward, onEvent(type), { reentry: 'after_finishing' });
    const contactId = await contact(email);
    const event = { id: type, type, contact: { email, attributes: { plan: 'pro' } }, payload: {} };
    await gate.query('BEGIN');
    try {
      await lock(contactId, workflowId);
      const { status, headers, body } = await onward.api<{ type: string }>('POST', '/events', event);
      expect([status, body.type]).toEqual([503, 'urn:onward:error:unavailable']);
      expect(headers.get('retry-after')).not.toBeNull();
    } finally {
      await gate.query('ROLLBACK');
    }
    expect(await countOf('SELECT 1 FROM events WHERE id = $1', [type])).toBe(0);
    expect(await countOf('SELECT 1 FROM runs WHERE workflow_id = $1', [workflowId])).toBe(0);
    expect(await countOf('SELECT 1 FROM run_refusals WHERE workflow_id = $1', [workflowId])).toBe(0);
    expect((await emit(event)).body).toMatchObject({ isRepeated: false, runs: [{ workflowId }], refusals: [] });
  });
});
