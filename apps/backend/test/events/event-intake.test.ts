import { afterAll, beforeAll, expect, test } from 'vitest';
import { rows } from '../../src/database/sql.js';
import { type BackendForTest, backendForTest } from '../backend-for-test.js';
import { line, publish, tag } from '../runtime/hand-worker.js';

let onward: BackendForTest;
let workflowId: string;
beforeAll(async () => {
  onward = await backendForTest({ AUTOMATIONS_SWEEP_INTERVAL_MS: '1000000', DATABASE_POOL_SIZE: '4' });
  const graph = line(tag('x'));
  const nodes = graph.nodes.map((node) => (node.type === 'trigger' ? { ...node, config: { type: 'event', event: 'in' } } : node));
  workflowId = await publish(onward, { ...graph, nodes }, { reentry: 'always' });
}, 60_000);
afterAll(() => onward?.close());

type Result = { status: number; id?: string; isRepeated?: boolean; runs?: unknown[]; problem?: { type: string; errors?: { path: string }[] } };
const batch = (events: unknown, sent = {}) => onward.api<{ results: Result[] }>('POST', '/events/batch', { events }, sent);
const countOf = async (like: string) => (await rows(onward.source, 'SELECT 1 FROM runs WHERE event_id LIKE $1', [like])).length;
const event = (id: string, more: object = {}) => ({ id, type: 'in', contact: { email: `${id}@example.test` }, payload: {}, ...more });
const many = (prefix: string) => Object.fromEntries(Array.from({ length: 150 }, (_, nth) => [`${prefix}${nth}`, 1]));

test('seven hundred events at once are all accepted, over a pool of four connections, and share transactions', async () => {
  const answers = await Promise.all(Array.from({ length: 700 }, (_, nth) => onward.api('POST', '/events', event(`crowd${nth}`))));
  expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([201]));
  expect(await countOf('crowd%')).toBe(700);
  // The transaction that wrote a row stands in its xmin.
  const transactions = await rows(onward.source, `SELECT DISTINCT xmin::text FROM events WHERE id LIKE 'crowd%'`);
  expect(transactions.length).toBeLessThan(350);
}, 120_000);

test('of events at once the one that cannot be taken fails alone', async () => {
  await onward.api('POST', '/events', event('full', { contact: { email: 'full@example.test', attributes: many('a') } }));
  const answers = await Promise.all(
    Array.from({ length: 60 }, (_, nth) =>
      onward.api('POST', '/events', nth === 30 ? event('poison', { contact: { email: 'full@example.test', attributes: many('b') } }) : event(`beside${nth}`)),
    ),
  );
  expect(answers.map(({ status }) => status)).toEqual(Array.from({ length: 60 }, (_, nth) => (nth === 30 ? 422 : 201)));
  expect(await countOf('beside%')).toBe(59);
  expect(await countOf('poison')).toBe(0);
}, 60_000);

test('a batch is answered event by event and in its order, and what is wrong with one stays with it', async () => {
  await onward.api('POST', '/events', event('b-full', { contact: { email: 'b-full@example.test', attributes: many('a') } }));
  await onward.api('POST', '/events', event('b-known'));
  const { status, body } = await batch([
    event('b-0'),
    event('b-1', { type: 'not a type' }),
    event('b-known'),
    event('b-known', { payload: { other: true } }),
    event('b-4', { contact: { email: 'b-full@example.test', attributes: many('b') } }),
    event('b-5'),
    event('b-5'),
    7,
  ]);
  expect(status).toBe(200);
  expect(body.results.map((one) => one.status)).toEqual([201, 400, 200, 409, 422, 201, 200, 400]);
  expect(body.results[0]).toMatchObject({ id: 'b-0', isRepeated: false, runs: [{ workflowId }], refusals: [] });
  expect(body.results[1]?.problem).toMatchObject({ type: 'urn:onward:error:invalid', errors: [{ path: 'events[1].type' }] });
  expect(body.results[3]?.problem).toMatchObject({ type: 'urn:onward:error:conflict', errors: [{ path: 'events[3].id' }] });
  expect(body.results[6]).toEqual({ ...body.results[5], status: 200, isRepeated: true });
  expect(body.results[7]?.problem?.errors?.[0]?.path).toBe('events[7]');
  expect(await countOf('b-%')).toBe(4);
});

test('a batch of five hundred events is taken as a whole, and one event more is refused', async () => {
  const events = Array.from({ length: 500 }, (_, nth) => event(`five${nth}`, { payload: { text: 'x'.repeat(2_000) } }));
  const { body } = await batch(events);
  expect(new Set(body.results.map(({ status }) => status))).toEqual(new Set([201]));
  expect(await countOf('five%')).toBe(500);
  expect(await batch([...events, event('one-more')])).toMatchObject({ status: 400, body: { errors: [{ path: 'events' }] } });
}, 60_000);

test.each([[undefined], [{}], [[]]])('a body whose events are %j is refused as a whole', async (events) => {
  expect((await batch(events)).status).toBe(400);
});

test('a batch sent again under its Idempotency-Key gets the first answer', async () => {
  const sent = { headers: { 'idempotency-key': 'batch-1' } };
  const events = [{ type: 'in', contact: { email: 'again@example.test' }, payload: {} }];
  const first = await batch(events, sent);
  const second = await batch(events, sent);
  expect(second.headers.get('idempotency-replayed')).toBe('true');
  expect(second.body).toEqual(first.body);
});
