import { connect } from 'node:net';
import { randomUUID } from 'node:crypto';
import { gzipSync } from 'node:zlib';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type BackendForTest, backendForTest } from '../backend-for-test.js';

type Problem = { type: string; title: string; status: number; detail: string; errors?: { path: string; message: string }[]; instance?: string };

let backend: BackendForTest;
beforeAll(async () => {
  backend = await backendForTest();
});
afterAll(() => backend.close());

const json = { 'content-type': 'application/json' };
const post = (body: string | Buffer, headers: Record<string, string> = json) => backend.api<Problem>('POST', '/contacts', body, { headers });
const contact = (extra: object = {}) => JSON.stringify({ email: 'ann@example.test', ...extra });

describe('bodies', () => {
  it.each([
    ['{"email": }', 'line 1, column 11'],
    ['{\n "email": "a@example.test",\n}', 'line 3, column 1'],
    ['{"email": "a', 'line 1, column 11'],
    ['[1 2]', 'line 1, column 4'],
    ['{} {}', 'line 1, column 4'],
    ['undefined', 'line 1, column 1'],
    [' ', 'the end of the text'],
  ])('text that is not JSON is a 400 that says where: %j', async (body, place) => {
    const { status, body: problem, headers } = await post(body);
    expect(status).toBe(400);
    expect(headers.get('content-type')).toMatch(/^application\/problem\+json/);
    expect(problem).toMatchObject({ type: 'urn:onward:error:malformed', status: 400, instance: expect.stringMatching(/^urn:uuid:/) });
    expect(problem.detail).toContain(place);
  });

  it.each([
    ['none', {}],
    ['text/plain', { 'content-type': 'text/plain' }],
    ['a form', { 'content-type': 'application/x-www-form-urlencoded' }],
    ['CSV where JSON is due', { 'content-type': 'text/csv' }],
    ['a look-alike', { 'content-type': 'application/jsonx' }],
    ['another charset', { 'content-type': 'application/json; charset=utf-16' }],
    ['an unknown packing', { ...json, 'content-encoding': 'zstd' }],
  ] as [string, Record<string, string>][])('a body of the wrong kind is a 415: %s', async (_, headers) => {
    const answer = await post(Buffer.from(contact()), headers);
    expect(answer).toMatchObject({ status: 415, body: { type: 'urn:onward:error:unsupported_media_type' } });
  });

  it.each(['application/json', 'application/JSON; charset=UTF-8', 'application/cloudevents+json', 'application/vnd.acme.v1+json; charset="utf-8"'])(
    '%s is taken as JSON',
    async (type) => {
      expect((await post(contact(), { 'content-type': type })).status).toBeLessThan(300);
    },
  );

  it('JSON is refused where CSV is due', async () => {
    expect((await backend.api('POST', '/contacts/import', { a: 1 })).status).toBe(415);
  });

  it.each([
    [256 * 1024, 200],
    [256 * 1024 + 1, 413],
  ])('a body of %i bytes is answered %i', async (length, expected) => {
    const body = contact({ attributes: { filler: '' } });
    const answer = await post(contact({ attributes: { filler: 'x'.repeat(length - body.length) } }));
    expect(answer.status).toBe(expected);
    if (expected === 413) expect(answer.body.type).toBe('urn:onward:error:too_large');
  });

  it('a packed body is unpacked, and counts by what it unpacks to', async () => {
    expect((await post(gzipSync(contact()), { ...json, 'content-encoding': 'gzip' })).status).toBe(200);
    expect((await post(gzipSync(contact({ attributes: { a: 'x'.repeat(20_000_000) } })), { ...json, 'content-encoding': 'gzip' })).status).toBe(413);
    expect(await post(Buffer.from('not gzip'), { ...json, 'content-encoding': 'gzip' })).toMatchObject({
      status: 400,
      body: { type: 'urn:onward:error:malformed' },
    });
  });

  it('bytes that are not UTF-8 are a 400', async () => {
    expect(await post(Buffer.from([0x22, 0xff, 0x22]))).toMatchObject({ status: 400, body: { detail: 'The body is not UTF-8' } });
  });

  it.each([
    ['POST', '/workflows', { name: 'a' }, 'graph', 'is missing'],
    ['POST', '/workflows', { name: 7, graph: {} }, 'name', 'must be a text'],
    ['GET', '/runs?limit=many', undefined, 'limit', 'must be a number'],
    ['GET', '/runs?limit=1.5', undefined, 'limit', 'must be a whole number'],
    ['POST', '/runs', { workflowId: randomUUID(), contacts: ['ann@example.test'] }, 'contacts.0', 'must be an object'],
    ['POST', '/runs', { workflowId: randomUUID(), contacts: [{ email: 'ann@example.test', nick: 'a' }] }, 'contacts.0.nick', 'is not known here'],
  ])('%s %s with %j: the field that is wrong is named, in plain words', async (method, path, body, field, message) => {
    expect(await backend.api(method, path, body)).toMatchObject({ status: 400, body: { errors: [{ path: field, message }] } });
  });

  it('no body where one is due is a 400', async () => {
    expect(await backend.api('POST', '/contacts')).toMatchObject({ status: 400, body: { type: 'urn:onward:error:invalid', errors: [{ path: '' }] } });
  });

  it.each([
    [30, 200],
    [31, 400],
  ])('an attribute nested %i deep is answered %i, the body around it counted', async (depth, expected) => {
    const answer = await post(`{"email":"ann@example.test","attributes":{"a":${'['.repeat(depth)}${']'.repeat(depth)}}}`);
    expect(answer.status).toBe(expected);
    if (expected === 400) expect(answer.body.errors?.[0]?.message).toContain('32 levels');
  });

  it('a body nested a hundred thousand deep is refused and harms nobody', async () => {
    expect((await post('['.repeat(100_000) + ']'.repeat(100_000))).status).toBe(400);
  });

  it.each([
    [1_000, 200],
    [1_001, 400],
  ])('an object of %i keys is answered %i', async (count, expected) => {
    const value = Object.fromEntries(Array.from({ length: count }, (_, index) => [`k${index}`, 1]));
    expect((await post(contact({ attributes: { value } }))).status).toBe(expected);
  });

  it.each(['{"a":"x\\u0000y"}', '{"a\\u0000":1}', '{"a":"\\ud800"}', '{"a":["\\udc00"]}'])(
    'a text that Postgres cannot keep is a 400: %s',
    async (attributes) => {
      expect(await post(`{"email":"ann@example.test","attributes":${attributes}}`)).toMatchObject({
        status: 400,
        body: { errors: [{ path: expect.stringMatching(/^attributes/) }] },
      });
    },
  );

  it('F06: a body with __proto__ pollutes nothing, and an attribute named as objects are made of is an attribute', async () => {
    const raw = '{"__proto__":{"polluted":"1"},"constructor":{"prototype":{"polluted":"1"}}}';
    expect((await backend.api('POST', '/events', raw, { headers: json })).status).toBe(400);
    expect((await backend.api('POST', '/events', `{"type":"a.b","payload":${raw}}`, { headers: json })).status).toBe(400);
    expect((await backend.api('POST', '/events', '{"type":"a.b","payload":{"constructor":{"prototype":{"polluted":"1"}}}}', { headers: json })).status).toBe(
      201,
    );
    expect(({} as Record<string, unknown>).polluted).toBeUndefined();
    const kept = await backend.api<{ attributes: object }>(
      'POST',
      '/contacts',
      '{"externalId":"f06","attributes":{"toString":"x","constructor":"y","prototype":"z"}}',
      { headers: json },
    );
    expect(kept.body.attributes).toEqual({ toString: 'x', constructor: 'y', prototype: 'z' });
  });
});

describe('fields', () => {
  it('names every field that is wrong, unknown ones included', async () => {
    const { status, body } = await backend.api<Problem>('POST', '/contacts', { email: 'no', attributes: { '': 1 }, tags: ['a', '', 3], extra: 1, more: 2 });
    expect(status).toBe(400);
    expect(body.errors?.map(({ path }) => path).sort()).toEqual(['attributes.', 'email', 'extra', 'more', 'tags.1', 'tags.2']);
    expect(body.errors?.find(({ path }) => path === 'extra')?.message).toBe('is not known here');
  });

  it.each([
    ['limit=0', 'limit'],
    ['limit=-1', 'limit'],
    ['limit=1000000000', 'limit'],
    ['limit=1.5', 'limit'],
    ['limit=', 'limit'],
    ['limit=ten', 'limit'],
    ['limit=1&limit=2', 'limit'],
    ['cursor=garbage', 'cursor'],
    ['cursor=', 'cursor'],
    [`cursor=${Buffer.from('["2026-02-30T00:00:00.000000Z","0198c0de-0000-7000-8000-000000000000"]').toString('base64url')}`, 'cursor'],
    [`cursor=${Buffer.from('["x","y"]').toString('base64url')}`, 'cursor'],
    ['colour=red', 'colour'],
    ['list=mine', 'list'],
  ])('F76: a query with %s is a 400 naming the field', async (query, path) => {
    expect(await backend.api('GET', `/contacts?${query}`)).toMatchObject({ status: 400, body: { type: 'urn:onward:error:invalid', errors: [{ path }] } });
  });

  it('a path parameter that is no id is a 400 naming it, one that is unknown a 404', async () => {
    expect(await backend.api('GET', '/contacts/me')).toMatchObject({ status: 400, body: { errors: [{ path: 'id' }] } });
    expect(await backend.api('GET', '/contacts/0198c0de-0000-7000-8000-000000000000')).toMatchObject({
      status: 404,
      body: { type: 'urn:onward:error:not_found' },
    });
  });
});

describe('answers', () => {
  it.each(['/nothing', '//nothing', '//', '//api', '//api/v2/contacts', '/contacts/0198c0de-0000-7000-8000-000000000000/secrets'])(
    'an unknown path is a problem of its own: %s',
    async (path) => {
      const answer = await backend.api<Problem>('GET', path);
      expect(answer).toMatchObject({ status: 404, body: { type: 'urn:onward:error:not_found', status: 404 } });
      expect(answer.headers.get('content-type')).toMatch(/^application\/problem\+json/);
    },
  );

  it('a path that cannot be decoded is a 400', async () => {
    expect(await backend.api('GET', '/contacts/%zz')).toMatchObject({ status: 400, body: { type: 'urn:onward:error:malformed' } });
  });

  it.each([
    ['no request', 'BLAH\r\n\r\n', 400],
    ['two lengths at once', 'POST /api/v1/events HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n', 400],
    ['a head of 20 KB', `GET /api/v1/contacts HTTP/1.1\r\nHost: x\r\nX-Long: ${'a'.repeat(20_000)}\r\n\r\n`, 431],
  ])('what cannot be read is a problem too, and ends its connection: %s', async (_what, bytes, status) => {
    const { port } = new URL(backend.url);
    const answer = await new Promise<string>((resolve, reject) => {
      let heard = '';
      const socket = connect({ port: Number(port), host: '127.0.0.1' }, () => socket.write(bytes));
      socket.on('data', (chunk: Buffer) => (heard += chunk.toString()));
      socket.once('close', () => resolve(heard));
      socket.once('error', reject);
    });
    const [head = '', body = ''] = answer.split('\r\n\r\n');
    expect(head).toMatch(new RegExp(`^HTTP/1.1 ${status} `));
    expect(head).toMatch(/\r\nContent-Type: application\/problem\+json/);
    expect(JSON.parse(body)).toMatchObject({ type: 'urn:onward:error:malformed', status });
  });

  it('a slash at the end of a path changes nothing; an id may be as long as one that was accepted', async () => {
    expect((await backend.api('GET', '/contacts/')).status).toBe(200);
    const id = '~'.repeat(200);
    expect((await backend.api('POST', '/events', { id, type: 'long.id' })).status).toBe(201);
    expect(await backend.api('GET', `/events/${encodeURIComponent(id)}`)).toMatchObject({ status: 200, body: { id } });
    expect((await backend.api('GET', `/events/${'%7E'.repeat(200)}`)).status).toBe(200);
  });

  it('say nothing of what they are made with and are not to be kept, framed or run', async () => {
    const { headers } = await backend.api('GET', '/contacts');
    expect(headers.get('x-powered-by')).toBeNull();
    expect(headers.get('etag')).toBeNull();
    expect(headers.get('cache-control')).toBe('no-store');
    expect(headers.get('x-content-type-options')).toBe('nosniff');
    expect(headers.get('x-frame-options')).toBe('DENY');
    expect(headers.get('content-security-policy')).toContain("default-src 'none'");
  });
});

describe('the description of the API', () => {
  const basic = (password: string) => ({ authorization: `Basic ${Buffer.from(`any:${password}`).toString('base64')}` });

  it.each([
    '//api/docs',
    '//api/docs/',
    '//api/docs/openapi.json',
    '//api/docs/swagger-ui-init.js',
    '//api/docs/swagger-ui.css',
    '//API/docs/openapi.json',
    '//api/docs//openapi.json',
  ])('%s asks for a key', async (path) => {
    const answer = await backend.api('GET', path, undefined, { key: null });
    expect([401, 404]).toContain(answer.status);
    if (answer.status === 401) expect(answer.headers.get('www-authenticate')).toContain('Basic');
    expect((await backend.api('GET', path, undefined, { key: null, headers: basic('onw_wrong') })).status).toBe(answer.status);
  });

  it('is served to who has one, as Bearer or as the password of Basic', async () => {
    const asJson = await backend.api<{ openapi: string; paths: Record<string, object> }>('GET', '//api/docs/openapi.json');
    expect(asJson.status).toBe(200);
    expect(Object.keys(asJson.body.paths)).toContain('/api/v1/contacts/{id}');
    const page = await backend.api<string>('GET', '//api/docs', undefined, { key: null, headers: basic(backend.apiKey) });
    expect(page.status).toBe(200);
    expect(page.body).toContain('swagger-ui');
  });

  it('knows bodies, queries and an operation summary for every route of people', async () => {
    const { body } = await backend.api<{ paths: Record<string, Record<string, { summary?: string; requestBody?: object; parameters?: { name: string }[] }>> }>(
      'GET',
      '//api/docs/openapi.json',
    );
    for (const [path, operations] of Object.entries(body.paths))
      for (const [method, operation] of Object.entries(operations)) expect(operation.summary, `${method} ${path}`).toBeTruthy();
    expect(body.paths['/api/v1/contacts']?.post?.requestBody).toMatchObject({ content: { 'application/json': { schema: { additionalProperties: false } } } });
    expect(body.paths['/api/v1/contacts']?.get?.parameters?.map(({ name }) => name)).toEqual(expect.arrayContaining(['limit', 'cursor', 'email', 'tag']));
  });
});
