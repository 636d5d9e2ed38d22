import { afterAll, beforeAll, expect, it } from 'vitest';
import { rows } from '../../src/database/sql.js';
import { type Answer, type BackendForTest, backendForTest } from '../backend-for-test.js';

type List = { id: string; name: string };

let backend: BackendForTest;
beforeAll(async () => {
  backend = await backendForTest();
});
afterAll(() => backend.close());

const createList = (name: string, key: string): Promise<Answer<List>> => backend.api<List>('POST', '/lists', { name }, { headers: { 'idempotency-key': key } });
const countLists = async (name: string) => (await rows(backend.source, 'SELECT 1 FROM lists WHERE name = $1', [name])).length;
const kept = (key: string) => rows<{ status: number | null }>(backend.source, 'SELECT status FROM idempotency_keys WHERE key = $1', [key]);

it('a repeat is given the first answer, to the byte, and does nothing', async () => {
  const first = await createList('replayed', 'key-1');
  const repeat = await createList('replayed', 'key-1');
  expect(first.status).toBe(201);
  expect(first.headers.get('idempotency-replayed')).toBeNull();
  expect(repeat.status).toBe(201);
  expect(repeat.headers.get('idempotency-replayed')).toBe('true');
  expect(JSON.stringify(repeat.body)).toBe(JSON.stringify(first.body));
  expect(await countLists('replayed')).toBe(1);
});

it('JSON that is only spaced otherwise is the same request', async () => {
  const sent = (body: string) => backend.api('POST', '/contacts', body, { headers: { 'content-type': 'application/json', 'idempotency-key': 'spaced' } });
  expect((await sent('{"email":"spaced@example.test"}')).status).toBe(201);
  expect((await sent('{ "email" : "spaced@example.test" }\n')).headers.get('idempotency-replayed')).toBe('true');
});

it('the key with another body, or for another route, is a conflict', async () => {
  await createList('first body', 'key-2');
  expect((await createList('second body', 'key-2')).status).toBe(409);
  expect(await countLists('second body')).toBe(0);
  expect((await backend.api('POST', '/templates', { name: 'first body' }, { headers: { 'idempotency-key': 'key-2' } })).status).toBe(409);
});

it('keys belong to the API key they came with', async () => {
  const other = await backend.api<{ key: string }>('POST', '/api-keys', { name: 'other' });
  await createList('mine', 'shared');
  const theirs = await backend.api('POST', '/lists', { name: 'theirs' }, { key: other.body.key, headers: { 'idempotency-key': 'shared' } });
  expect(theirs.status).toBe(201);
});

it('a refused request frees its key for the corrected one', async () => {
  expect((await createList('', 'key-3')).status).toBe(400);
  expect((await createList('corrected', 'key-3')).status).toBe(201);
  expect((await createList('mine', 'key-4')).status).toBe(409);
  expect(await kept('key-4')).toHaveLength(0);
});

it('while the first is at work a repeat is told to wait, and then given its answer', async () => {
  const blocker = backend.source.createQueryRunner();
  await blocker.connect();
  await blocker.query('BEGIN');
  await blocker.query('LOCK TABLE lists IN SHARE MODE');
  const first = createList('slow', 'key-5');
  while ((await kept('key-5')).length === 0) await new Promise(setImmediate);
  const repeats = await Promise.all([createList('slow', 'key-5'), createList('slow', 'key-5')]);
  await blocker.query('COMMIT');
  await blocker.release();
  for (const repeat of repeats) {
    expect(repeat.status).toBe(409);
    expect(Number(repeat.headers.get('retry-after'))).toBeGreaterThan(0);
  }
  expect((await first).status).toBe(201);
  expect((await createList('slow', 'key-5')).headers.get('idempotency-replayed')).toBe('true');
});

it('of ten at once one does the work', async () => {
  const answers = await Promise.all(Array.from({ length: 10 }, () => createList('ten', 'key-6')));
  expect(answers.filter(({ status, headers }) => status === 201 && headers.get('idempotency-replayed') === null)).toHaveLength(1);
  expect(answers.every(({ status }) => status === 201 || status === 409)).toBe(true);
  expect(await countLists('ten')).toBe(1);
});

it('a first request whose process died frees its key after a minute, not before', async () => {
  await createList('died', 'key-7');
  await rows(backend.source, `UPDATE idempotency_keys SET status = NULL, body = NULL, created_at = now() - interval '55 seconds' WHERE key = 'key-7'`);
  expect(await createList('died', 'key-7')).toMatchObject({ status: 409, body: { detail: expect.stringContaining('still being worked on') } });
  await rows(backend.source, `UPDATE idempotency_keys SET created_at = now() - interval '61 seconds' WHERE key = 'key-7'`);
  expect((await createList('died and came back', 'key-7')).status).toBe(201);
});

it('answers are kept for a day and then pruned as new ones come in', async () => {
  await createList('old', 'key-8');
  await rows(backend.source, `UPDATE idempotency_keys SET created_at = now() - interval '23 hours' WHERE key = 'key-8'`);
  expect((await createList('old', 'key-8')).headers.get('idempotency-replayed')).toBe('true');
  await rows(backend.source, `UPDATE idempotency_keys SET created_at = now() - interval '25 hours' WHERE key = 'key-8'`);
  await createList('new', 'key-9');
  expect(await kept('key-8')).toHaveLength(0);
});

it.each(['', ' ', 'two words', 'é', 'x'.repeat(201)])('a key that is none is a 400: %j', async (key) => {
  const answer = await backend.api('POST', '/lists', { name: 'never' }, { headers: { 'idempotency-key': key } }).catch(() => ({ status: 400 }));
  expect(answer.status).toBe(400);
  expect(await countLists('never')).toBe(0);
});

it('an answer that shows a secret is not kept: the header is refused there', async () => {
  expect(await backend.api('POST', '/api-keys', { name: 'x' }, { headers: { 'idempotency-key': 'k' } })).toMatchObject({
    status: 400,
    body: { errors: [{ path: 'Idempotency-Key' }] },
  });
});

it('without the header every request is its own', async () => {
  expect((await backend.api('POST', '/lists', { name: 'plain' })).status).toBe(201);
  expect((await backend.api('POST', '/lists', { name: 'plain' })).status).toBe(409);
});
