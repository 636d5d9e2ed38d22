import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { rows } from '../../src/database/sql.js';
import { type BackendForTest, backendForTest } from '../backend-for-test.js';
import { type Emitted, listenTo } from './listen.js';

type Contact = { id: string; externalId: string | null; email: string | null; attributes: object; tags: string[]; lists: { id: string; name: string }[] };
type List = { id: string; name: string; memberCount: number };
type Page<Item> = { items: Item[]; nextCursor: string | null };

let backend: BackendForTest;
let emitted: () => Promise<Emitted[]>;
beforeAll(async () => {
  backend = await backendForTest();
  emitted = await listenTo(backend, ['tag.added', 'tag.removed', 'list.joined', 'list.left']);
});
afterAll(() => backend.close());
beforeEach(async () => {
  await rows(backend.source, 'DELETE FROM contacts');
  await rows(backend.source, 'DELETE FROM lists');
  await emitted();
});

const UNKNOWN = '0198c0de-0000-7000-8000-000000000000';
const make = async (body: object) => (await backend.api<Contact>('POST', '/contacts', body)).body;
const makeList = async (name: string) => (await backend.api<List>('POST', '/lists', { name })).body;

describe('contacts', () => {
  it('are made with a 201, merged with a 200, and shown with tags and lists', async () => {
    const made = await backend.api<Contact>('POST', '/contacts', {
      externalId: 'x',
      email: 'Ann@Example.test',
      attributes: { plan: 'pro' },
      tags: ['vip', 'vip', ' new '],
    });
    expect(made).toMatchObject({
      status: 201,
      body: { externalId: 'x', email: 'ann@example.test', attributes: { plan: 'pro' }, tags: ['new', 'vip'], lists: [] },
    });
    expect(await emitted()).toMatchObject([{ type: 'tag.added', contactId: made.body.id, depth: 0 }, { type: 'tag.added' }]);
    const merged = await backend.api<Contact>('POST', '/contacts', { externalId: 'x', attributes: { plan: null, city: 'Lyon' }, tags: ['vip'] });
    expect(merged).toMatchObject({ status: 200, body: { id: made.body.id, attributes: { city: 'Lyon' }, tags: ['new', 'vip'] } });
    expect(await emitted()).toEqual([]);
    expect((await backend.api('GET', `/contacts/${made.body.id}`)).body).toEqual(merged.body);
  });

  it('need an identity, a sane address and sane names', async () => {
    for (const body of [
      {},
      { attributes: {} },
      { email: null },
      { email: 'a@example.test\r\nBcc: x@example.test' },
      { externalId: '' },
      { externalId: 'a\nb' },
      { externalId: 'x', tags: ['a\u0000'] },
      { externalId: 'x', attributes: { ['k'.repeat(101)]: 1 } },
    ]) {
      expect((await backend.api('POST', '/contacts', body)).status, JSON.stringify(body)).toBe(400);
    }
  });

  it('are found by e-mail in any case, external id, tag and list', async () => {
    const [a, b] = [await make({ externalId: 'a', email: 'same@example.test', tags: ['vip'] }), await make({ externalId: 'b', email: 'same@example.test' })];
    await make({ externalId: 'c' });
    const list = await makeList('news');
    await backend.api('POST', `/lists/${list.id}/members`, { contactIds: [b.id] });
    const found = async (query: string) => (await backend.api<Page<Contact>>('GET', `/contacts?${query}`)).body.items.map(({ id }) => id);
    expect(await found('email=SAME@example.test')).toEqual([b.id, a.id]);
    expect(await found('externalId=a')).toEqual([a.id]);
    expect(await found('tag=vip')).toEqual([a.id]);
    expect(await found(`list=${list.id}`)).toEqual([b.id]);
    expect(await found(`list=${list.id}&tag=vip`)).toEqual([]);
    expect(await found('')).toHaveLength(3);
  });

  it('are changed by id; an identity of somebody else is a conflict and the last identity stays', async () => {
    const a = await make({ externalId: 'a', email: 'a@example.test' });
    await make({ externalId: 'b' });
    await make({ email: 'alone@example.test' });
    const patch = (body: object) => backend.api<Contact>('PATCH', `/contacts/${a.id}`, body);
    expect(await patch({ email: 'NEW@example.test', attributes: { a: 1 } })).toMatchObject({
      status: 200,
      body: { email: 'new@example.test', attributes: { a: 1 } },
    });
    expect(await patch({ externalId: 'b' })).toMatchObject({ status: 409, body: { errors: [{ path: 'externalId' }] } });
    expect((await patch({ email: 'alone@example.test' })).status).toBe(200);
    expect(await patch({ externalId: null })).toMatchObject({ status: 409, body: { errors: [{ path: 'email' }] } });
    expect((await patch({ email: null })).status).toBe(200);
    expect((await patch({ externalId: null })).status).toBe(422);
    expect((await backend.api('PATCH', `/contacts/${UNKNOWN}`, { attributes: {} })).status).toBe(404);
  });

  it('are deleted with tags and memberships, while their runs stay', async () => {
    const a = await make({ externalId: 'a', tags: ['vip'] });
    const list = await makeList('news');
    await backend.api('POST', `/lists/${list.id}/members`, { contactIds: [a.id] });
    expect(await rows(backend.source, 'SELECT 1 FROM runs WHERE contact_id = $1', [a.id])).not.toHaveLength(0);
    expect((await backend.api('DELETE', `/contacts/${a.id}`)).status).toBe(204);
    expect((await backend.api('GET', `/contacts/${a.id}`)).status).toBe(404);
    expect((await backend.api('DELETE', `/contacts/${a.id}`)).status).toBe(404);
    expect(await rows(backend.source, 'SELECT 1 FROM contact_tags UNION ALL SELECT 1 FROM list_members')).toHaveLength(0);
    expect(await rows(backend.source, 'SELECT 1 FROM runs WHERE contact_id = $1', [a.id])).not.toHaveLength(0);
  });
});

describe('tags', () => {
  it('are added and taken off once, and only a change is an event', async () => {
    const { id } = await make({ externalId: 'a' });
    const add = () => backend.api('POST', `/contacts/${id}/tags`, { tag: 'a/b & c' });
    const remove = () => backend.api('DELETE', `/contacts/${id}/tags/${encodeURIComponent('a/b & c')}`);
    expect(await add()).toMatchObject({ status: 200, body: { tag: 'a/b & c', changed: true } });
    expect(await add()).toMatchObject({ body: { changed: false } });
    expect(await remove()).toMatchObject({ status: 200, body: { tag: 'a/b & c', changed: true } });
    expect(await remove()).toMatchObject({ body: { changed: false } });
    expect(await emitted()).toMatchObject([
      { type: 'tag.added', contactId: id, payload: { tag: 'a/b & c' } },
      { type: 'tag.removed', contactId: id, payload: { tag: 'a/b & c' } },
    ]);
    expect((await backend.api('POST', `/contacts/${UNKNOWN}/tags`, { tag: 'x' })).status).toBe(404);
    expect((await backend.api('DELETE', `/contacts/${UNKNOWN}/tags/x`)).status).toBe(404);
    expect((await backend.api('DELETE', `/contacts/${id}/tags/%00`)).status).toBe(400);
  });

  it('twenty at once add a tag once', async () => {
    const { id } = await make({ externalId: 'a' });
    const answers = await Promise.all(Array.from({ length: 20 }, () => backend.api<{ changed: boolean }>('POST', `/contacts/${id}/tags`, { tag: 'one' })));
    expect(answers.filter(({ body }) => body.changed)).toHaveLength(1);
    expect(await emitted()).toHaveLength(1);
  });

  it('are listed by name with their counts, page by page', async () => {
    for (const [index, tags] of [['b', 'a'], ['b'], ['c', 'b']].entries()) await make({ externalId: `t${index}`, tags });
    const first = await backend.api<Page<{ name: string; count: number }>>('GET', '/tags?limit=2');
    expect(first.body.items).toEqual([
      { name: 'a', count: 1 },
      { name: 'b', count: 3 },
    ]);
    const second = await backend.api<Page<{ name: string; count: number }>>('GET', `/tags?limit=2&cursor=${first.body.nextCursor}`);
    expect(second.body).toEqual({ items: [{ name: 'c', count: 1 }], nextCursor: null });
  });
});

describe('lists', () => {
  it('are made, renamed, counted and deleted; a name belongs to one', async () => {
    const list = await makeList('news');
    expect(await backend.api('POST', '/lists', { name: 'news' })).toMatchObject({ status: 409, body: { errors: [{ path: 'name' }] } });
    const other = await makeList('other');
    expect((await backend.api('PATCH', `/lists/${other.id}`, { name: 'news' })).status).toBe(409);
    expect(await backend.api('PATCH', `/lists/${list.id}`, { name: 'weekly' })).toMatchObject({ status: 200, body: { name: 'weekly', memberCount: 0 } });
    expect((await backend.api<Page<List>>('GET', '/lists')).body.items.map(({ name }) => name)).toEqual(['other', 'weekly']);
    expect((await backend.api('DELETE', `/lists/${list.id}`)).status).toBe(204);
    for (const [method, path] of [
      ['GET', ''],
      ['DELETE', ''],
      ['GET', '/members'],
      ['DELETE', `/members/${UNKNOWN}`],
    ] as const) {
      expect((await backend.api(method, `/lists/${list.id}${path}`)).status).toBe(404);
    }
    expect((await backend.api('POST', `/lists/${list.id}/members`, { contactIds: [UNKNOWN] })).status).toBe(404);
  });

  it('take members once, say who is unknown, and let them go; only a change is an event', async () => {
    const list = await makeList('news');
    const [a, b] = [await make({ externalId: 'a' }), await make({ externalId: 'b' })];
    const add = () =>
      backend.api<{ joined: string[]; unknown: string[] }>('POST', `/lists/${list.id}/members`, { contactIds: [b.id, UNKNOWN, a.id.toUpperCase(), b.id] });
    const first = await add();
    expect(first.status).toBe(200);
    expect([...first.body.joined].sort()).toEqual([a.id, b.id].sort());
    expect(first.body.unknown).toEqual([UNKNOWN]);
    expect((await add()).body).toEqual({ joined: [], unknown: [UNKNOWN] });
    const leave = () => backend.api('DELETE', `/lists/${list.id}/members/${a.id}`);
    expect(await leave()).toMatchObject({ status: 200, body: { left: true } });
    expect(await leave()).toMatchObject({ status: 200, body: { left: false } });
    expect((await emitted()).map(({ type, payload }) => [type, payload])).toEqual([
      ['list.joined', { listId: list.id, list: 'news' }],
      ['list.joined', { listId: list.id, list: 'news' }],
      ['list.left', { listId: list.id, list: 'news' }],
    ]);
    expect((await backend.api<Page<Contact>>('GET', `/lists/${list.id}/members`)).body.items.map(({ externalId }) => externalId)).toEqual(['b']);
    expect((await backend.api<Contact>('GET', `/contacts/${b.id}`)).body.lists).toEqual([{ id: list.id, name: 'news' }]);
  });
});
