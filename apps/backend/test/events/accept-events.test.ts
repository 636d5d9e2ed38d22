import type { PoolClient } from 'pg';
import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import type { Json } from '@onward/contracts/json';
import { FailPoints } from '@onward/wire/fail-points';
import { transactAndTell } from '../../src/database/outbox.js';
import { change, rows } from '../../src/database/sql.js';
import { problemOf } from '../../src/http/problem-filter.js';
import { acceptEvents, type EventAnswer, type EventInput } from '../../src/triggers/event/accept-events.js';
import { type BackendForTest, backendForTest } from '../backend-for-test.js';
import { busOf } from '../contacts/listen.js';
import { line, publish, tag } from '../runtime/hand-worker.js';

let onward: BackendForTest;
beforeAll(async () => {
  onward = await backendForTest({ AUTOMATIONS_SWEEP_INTERVAL_MS: '1000000' });
  const settings = ['never', 'after_finishing', 'always'];
  for (const [nth, event] of ['a', 'b', 'contact.created', 'contact.updated', 'a', 'b', 'a', 'contact.updated'].entries()) {
    const filter = nth === 4 ? { tests: [{ field: 'event.n', op: 'equals', value: 1 }] } : nth > 4 ? { tests: [FILTERS[nth - 5]] } : undefined;
    const graph = line(tag('x'));
    const nodes = graph.nodes.map((node) => (node.type === 'trigger' ? { ...node, config: { type: 'event', event, ...(filter ? { filter } : {}) } } : node));
    workflows.push(await publish(onward, { ...graph, nodes }, { reentry: settings[nth % 3] }));
  }
  await change(onward.source, `UPDATE workflows SET version_id = '01960000-0000-7000-8000-000000000000' WHERE id = $1`, [workflows[6]]);
}, 120_000);
afterAll(() => onward?.close());

const workflows: string[] = [];
const FILTERS = [
  { field: 'contact.attributes.plan', op: 'equals', value: 'pro' },
  { field: 'contact.tags', op: 'contains', value: 'vip' },
  { field: 'contact.externalId', op: 'exists' },
];

const take = (inputs: EventInput[], onFault: 'throw' | 'refuse' = 'throw') =>
  transactAndTell(onward.source, { tell: () => undefined, takes: () => false }, (tx) =>
    acceptEvents(tx, inputs, { bus: busOf(onward), failPoints: new FailPoints(), onFault }),
  );

/** A generator of numbers that a seed repeats (mulberry32). */
function numbers(seed: number): (below: number) => number {
  let state = seed;
  return (below) => {
    state = (state + 0x6d2b79f5) | 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return Math.floor((((t ^ (t >>> 14)) >>> 0) / 4_294_967_296) * below);
  };
}

/** Events of few contacts and few ids, so that repeats, conflicts, adoptions and re-entries come about. `mark` keeps the worlds of two runs apart. */
function randomEvents(seed: number, mark: string): EventInput[] {
  const pick = numbers(seed);
  return Array.from({ length: 40 }, (): EventInput => {
    const who = pick(6);
    const contact = { ...(pick(2) ? { externalId: `${mark}x${who}` } : {}), email: `${mark}e${pick(3) ? who : pick(6)}@example.test` };
    const attributes: Record<string, Json> = pick(2) ? { plan: ['free', 'pro', null][pick(3)] ?? null, n: pick(3) } : {};
    return {
      ...(pick(3) ? { id: `${mark}id${pick(30)}` } : {}),
      type: ['a', 'b', 'c', 'contact.updated'][pick(4)] ?? 'a',
      ...(pick(5) ? { contact: { ...contact, attributes } } : {}),
      payload: { n: pick(2) },
    };
  });
}

/** Everything that events of this mark led to, with ids of our own replaced by what they stand for and times left out. */
async function worldOf(mark: string) {
  const contacts = await rows<{ id: string }>(
    onward.source,
    `SELECT id, replace(external_id, $1, '') AS external_id, replace(email, $1, '') AS email, attributes FROM contacts WHERE email LIKE $1 || '%' ORDER BY email, external_id`,
    [mark],
  );
  const nameOf = new Map(contacts.map(({ id }, index) => [id, `contact ${index}`]));
  const known = (id: string | null) => (id === null ? null : (nameOf.get(id) ?? 'somebody else'));
  const told = await rows<Record<string, string | null>>(
    onward.source,
    `SELECT kind, workflow_id AS workflow, all_kinds.contact_id AS contact, replace(event_id, $1, '') AS event, type, replace(payload::text, $1, '') AS payload, what, snapshot::text AS snapshot FROM (
       SELECT 'run' AS kind, workflow_id, contact_id, event_id, state || ' ' || node || ' ' || CASE reentry_key WHEN encode(substring(sha256(convert_to(workflow_id || ':' || contact_id, 'UTF8')) FROM 1 FOR 16), 'hex')::uuid THEN 'alone' ELSE coalesce(reentry_key::text, '') END AS what,
              context -> 'contact' -> 'attributes' AS snapshot FROM runs JOIN run_contexts ON run_id = runs.id
       UNION ALL SELECT 'refusal', workflow_id, contact_id, event_id, reason, null FROM run_refusals
       UNION ALL SELECT 'event', null, contact_id, id, depth::text, null FROM events
     ) AS all_kinds JOIN events ON events.id = event_id
     WHERE event_id LIKE $1 || '%' OR events.contact_id = ANY ($2::uuid[])`,
    [mark, contacts.map(({ id }) => id)],
  );
  const isUuid = /^[0-9a-f]{8}-/;
  const facts = told.map((one) =>
    JSON.stringify({ ...one, contact: known(one['contact'] ?? null), event: isUuid.test(one['event'] ?? '') ? 'ours' : one['event'] }),
  );
  return { contacts: contacts.map(({ id: _id, ...contact }) => contact), facts: facts.sort() };
}

/** An answer with the ids of our own left out. */
function plain(answer: EventAnswer, mark: string) {
  if ('refused' in answer) return problemOf(answer.refused).code;
  const { id, isRepeated, dispatched } = answer.accepted;
  return [id.startsWith(mark) ? id.slice(mark.length) : 'ours', isRepeated, dispatched.map((one) => [one.workflowId, 'runId' in one ? 'run' : one.refused])];
}

test('many events at once leave the rows and get the answers that they get one by one', async () => {
  for (let seed = 1; seed <= 12; seed += 1) {
    const [one, many] = [`s${seed}-one-`, `s${seed}-many-`];
    for (const mark of [one, many]) {
      const [made] = await take([{ id: `${mark}vip`, type: 'none', contact: { email: `${mark}e1@example.test` }, payload: {} }]);
      const contactId = made && 'accepted' in made ? made.accepted.contactId : null;
      await change(onward.source, `INSERT INTO contact_tags (contact_id, tag) VALUES ($1, 'vip')`, [contactId]);
    }
    const alone: EventAnswer[] = [];
    for (const event of randomEvents(seed, one)) {
      alone.push(
        ...(await take([event], 'refuse').catch((error: unknown): EventAnswer[] => {
          return [{ refused: error as Error }];
        })),
      );
    }
    const together = await take(randomEvents(seed, many));
    expect({ seed, answers: together.map((answer) => plain(answer, many)) }).toEqual({ seed, answers: alone.map((answer) => plain(answer, one)) });
    expect({ seed, ...(await worldOf(many)) }).toEqual({ seed, ...(await worldOf(one)) });
  }
}, 120_000);

test.each(['throw', 'refuse'] as const)(
  'five hundred events take no more statements than five (%s)',
  async (onFault) => {
    const statements = async (size: number) => {
      const runner = onward.source.createQueryRunner();
      await runner.startTransaction();
      const made = vi.spyOn((await runner.connect()) as PoolClient, 'query');
      const events = Array.from(
        { length: size },
        (_, nth): EventInput => ({ id: `${onFault}${size}-${nth}`, type: 'b', contact: { email: `${onFault}${size}-${nth}@example.test` }, payload: {} }),
      );
      await acceptEvents(runner.manager, events, { bus: busOf(onward), failPoints: new FailPoints(), onFault });
      if (runner.isTransactionActive) await runner.commitTransaction();
      const count = made.mock.calls.length;
      made.mockRestore();
      await runner.release();
      return count;
    };
    const few = await statements(5);
    expect(await statements(500)).toBe(few);
    expect(few).toBeLessThan(16);
  },
  60_000,
);
