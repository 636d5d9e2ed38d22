import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { rows } from '../../src/database/sql.js';
import { type BackendForTest, backendForTest } from '../backend-for-test.js';

type Import = { total: number; imported: number; created: number; updated: number; failed: { line: number; reason: string }[]; failedCount: number };

let backend: BackendForTest;
beforeAll(async () => {
  backend = await backendForTest();
});
afterAll(() => backend.close());
beforeEach(() => rows(backend.source, 'DELETE FROM contacts'));

const send = (csv: string | Buffer, query = '') =>
  backend.api<Import>('POST', `/contacts/import${query}`, Buffer.from(csv), { headers: { 'content-type': 'text/csv; charset=utf-8' } });
const contacts = () =>
  rows<{ external_id: string | null; email: string | null; attributes: object }>(
    backend.source,
    'SELECT external_id, email, attributes FROM contacts ORDER BY id',
  );

describe('importing contacts', () => {
  it('makes and merges contacts, columns as attributes, empty cells left alone', async () => {
    await backend.api('POST', '/contacts', { externalId: '1', attributes: { plan: 'pro', city: 'Lyon' } });
    const { status, body } = await send(
      'email,external_id,first_name,plan,attributes.city\nann@example.test,1,Ann,,Paris\nBob@Example.test,,"Bob, ""the"" 2nd",free,\n',
    );
    expect(status).toBe(200);
    expect(body).toEqual({ total: 2, imported: 2, created: 1, updated: 1, failed: [], failedCount: 0 });
    expect(await contacts()).toEqual([
      { external_id: '1', email: 'ann@example.test', attributes: { plan: 'pro', city: 'Paris', first_name: 'Ann' } },
      { external_id: null, email: 'bob@example.test', attributes: { first_name: 'Bob, "the" 2nd', plan: 'free' } },
    ]);
    expect((await send('email,external_id,first_name\nann@example.test,1,Ann\n')).body).toMatchObject({ imported: 1, created: 0, updated: 0 });
  });

  it('reports bad rows by line with the reason and keeps the good ones', async () => {
    const csv = [
      'email,external_id,name',
      'ok1@example.test,,A',
      'nonsense,,B',
      ',,C',
      '',
      '"multi',
      'line"@example.test,,D',
      'ok2@example.test,,E,too,many',
      'x@example.test\u0000,,F',
      `,${'y'.repeat(201)},G`,
      'ok3@example.test',
      '"ok4@example.test"broken,,H',
      'ok5@example.test,,I',
    ].join('\n');
    const { body } = await send(csv);
    expect(body.failed.map(({ line }) => line)).toEqual([3, 4, 6, 8, 9, 10, 12]);
    expect(body.failed[0]?.reason).toContain('nonsense');
    expect(body).toMatchObject({ imported: 3, created: 3, failedCount: 7, total: 10 });
    expect((await contacts()).map(({ email }) => email)).toEqual(['ok1@example.test', 'ok3@example.test', 'ok5@example.test']);
  });

  it('a quote that is never closed costs its own row only', async () => {
    const { body } = await send('email,name\na@example.test,A\nb@example.test,"B\nc@example.test,C\n');
    expect(body).toMatchObject({ imported: 2, failed: [{ line: 3, reason: expect.stringContaining('quote') }] });
    const later = await send('email,name,note\nd@example.test,"two\nlines","open\ne@example.test,E,\n');
    expect(later.body).toMatchObject({ imported: 1, failed: [{ line: 2, reason: expect.stringContaining('quote') }] });
  });

  it.each([
    ['semicolons', Buffer.from('email;name\na@example.test;"A; B, C"\n')],
    ['tabs', Buffer.from('email\tname\na@example.test\tA; B, C\n')],
    ['a byte order mark', Buffer.from('\ufeffemail,name\na@example.test,"A; B, C"\n')],
    ['UTF-16', Buffer.from('\ufeffemail\tname\r\na@example.test\tA; B, C\r\n', 'utf16le')],
    ['old line ends', Buffer.from('E-Mail,name\ra@example.test,"A; B, C"\r')],
    ['blanks around', Buffer.from(' email , name \r\n a@example.test , "A; B, C"\r\n'.replaceAll(' "', '"').replace('name \r', 'name\r'))],
  ])('reads a file with %s', async (_, csv) => {
    expect(await send(csv)).toMatchObject({ status: 200, body: { imported: 1, failed: [] } });
    expect(await contacts()).toMatchObject([{ email: 'a@example.test', attributes: { name: 'A; B, C' } }]);
  });

  it('takes the delimiter that is named', async () => {
    expect((await send('email;a,b\nx@example.test;1,2', '?delimiter=semicolon')).body.imported).toBe(1);
    expect((await contacts())[0]?.attributes).toEqual({ 'a,b': '1,2' });
    expect((await send('email', '?delimiter=pipe')).status).toBe(400);
  });

  it.each([
    ['an empty file', ''],
    ['a header without an identity', 'name,plan\nA,pro\n'],
    ['a column twice', 'email,plan,plan\n'],
    ['a column twice under two spellings', 'email,E-Mail\n'],
    ['a column without a name', 'email,,plan\n'],
    ['a column that cannot be an attribute', 'email,__proto__\na@example.test,x\n'],
    ['another encoding', Buffer.from([0x65, 0x6d, 0x61, 0x69, 0x6c, 0x0a, 0xe9])],
    ['too many columns', `email,${Array.from({ length: 251 }, (_, index) => `c${index}`).join(',')}\n`],
  ])('a file as a whole is refused for %s', async (_, csv) => {
    const answer = await backend.api('POST', '/contacts/import', csv.length === 0 ? undefined : Buffer.from(csv), { headers: { 'content-type': 'text/csv' } });
    expect(answer.status).toBe(400);
    expect(await contacts()).toHaveLength(0);
  });

  it('a header alone imports nobody', async () => {
    expect((await send('email\n')).body).toEqual({ total: 0, imported: 0, created: 0, updated: 0, failed: [], failedCount: 0 });
  });

  it('puts everybody on a list and tags them; an unknown list is a 404 before anything is written', async () => {
    const list = (await backend.api<{ id: string }>('POST', '/lists', { name: 'imported' })).body;
    expect((await send('email\na@example.test\na@example.test\nb@example.test\n', `?list=${list.id}&tag=spring`)).body).toMatchObject({
      imported: 3,
      created: 2,
    });
    expect((await backend.api('GET', `/lists/${list.id}`)).body).toMatchObject({ memberCount: 2 });
    expect((await backend.api('GET', '/tags')).body).toMatchObject({ items: [{ name: 'spring', count: 2 }] });
    expect((await send('email\nc@example.test\n', '?list=0198c0de-0000-7000-8000-000000000000')).status).toBe(404);
    expect(await contacts()).toHaveLength(2);
  });

  it('many batches, with a row in the midst that would give a contact too many attributes', async () => {
    await backend.api('POST', '/contacts', { externalId: 'full', attributes: Object.fromEntries(Array.from({ length: 200 }, (_, index) => [`a${index}`, 1])) });
    const lines = Array.from({ length: 1_300 }, (_, index) => `p${index},P${index}`);
    lines.splice(700, 0, 'full,Full');
    const { body } = await send(`external_id,extra\n${lines.join('\n')}\n`);
    expect(body).toMatchObject({ total: 1_301, imported: 1_300, created: 1_300, failedCount: 1 });
    expect(body.failed).toEqual([{ line: 702, reason: expect.stringContaining('200 attributes') }]);
  });

  it('shows the first hundred failures and counts all', async () => {
    const { body } = await send(`email\n${'bad\n'.repeat(150)}`);
    expect(body.failed).toHaveLength(100);
    expect(body.failedCount).toBe(150);
  });

  it('takes ten megabytes and not a byte more', async () => {
    const head = 'external_id,filler\nx,';
    expect(await send(`${head}${'y'.repeat(10 * 1024 * 1024 - head.length)}`)).toMatchObject({
      status: 200,
      body: { failed: [{ line: 2, reason: expect.stringContaining('10,000') }] },
    });
    expect((await send(`${head}${'y'.repeat(10 * 1024 * 1024 - head.length + 1)}`)).status).toBe(413);
  });
});

describe('suppressions', () => {
  beforeEach(() => rows(backend.source, 'DELETE FROM suppressions'));

  it('are made, listed, filtered and lifted', async () => {
    expect(await backend.api('POST', '/suppressions', { email: 'Ann@Example.test' })).toMatchObject({
      status: 201,
      body: { email: 'ann@example.test', reason: 'manual' },
    });
    expect((await backend.api('POST', '/suppressions', { email: 'ann@example.test' })).status).toBe(200);
    await backend.api('POST', '/suppressions', { email: 'ann@example.test', reason: 'bounce' });
    await backend.api('POST', '/suppressions', { email: 'bob@example.test', reason: 'unsubscribed' });
    type Listed = { items: { email: string; reason: string }[]; nextCursor: string | null };
    const first = await backend.api<Listed>('GET', '/suppressions?limit=2');
    expect(first.body.items.map(({ email, reason }) => [email, reason])).toEqual([
      ['ann@example.test', 'bounce'],
      ['ann@example.test', 'manual'],
    ]);
    expect((await backend.api<Listed>('GET', `/suppressions?limit=2&cursor=${first.body.nextCursor}`)).body).toMatchObject({
      items: [{ email: 'bob@example.test' }],
      nextCursor: null,
    });
    expect((await backend.api<Listed>('GET', '/suppressions?email=ANN@example.test&reason=bounce')).body.items).toHaveLength(1);
    expect((await backend.api('DELETE', '/suppressions/ann@example.test?reason=bounce')).status).toBe(204);
    expect((await backend.api<Listed>('GET', '/suppressions?email=ann@example.test')).body.items).toHaveLength(1);
    expect((await backend.api('DELETE', '/suppressions/ANN@example.test')).status).toBe(204);
    expect((await backend.api('DELETE', '/suppressions/ann@example.test')).status).toBe(404);
    expect((await backend.api('POST', '/suppressions', { email: 'x', reason: 'whim' })).status).toBe(400);
  });

  it('are imported from CSV, bad rows by line', async () => {
    const csv = 'Email;reason\nann@example.test;bounce\nbob@example.test;\nnobody;bounce\ncy@example.test;whim\nann@example.test;bounce\n';
    const answer = await backend.api<Import>('POST', '/suppressions/import', Buffer.from(csv), { headers: { 'content-type': 'text/csv' } });
    expect(answer).toMatchObject({ status: 200, body: { total: 5, imported: 3, created: 2, failedCount: 2 } });
    expect(answer.body.failed.map(({ line }) => line)).toEqual([4, 5]);
    expect(await rows(backend.source, 'SELECT email, reason FROM suppressions ORDER BY email')).toEqual([
      { email: 'ann@example.test', reason: 'bounce' },
      { email: 'bob@example.test', reason: 'manual' },
    ]);
  });
});
