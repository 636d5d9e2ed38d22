import { afterAll, describe, expect, it } from 'vitest';
import { closeEgress, type SecretValue, sendRequest } from '../src/send-request.js';
import { allow, answerNames, get, type LocalTarget, openHttpTarget } from './local-target.js';

afterAll(closeEgress);

const P = `onws${'1b'.repeat(20)}`;
const Q = `onws${'2c'.repeat(20)}`;
const VALUE = 'va/l ue+&="%é\'..';

const secret = (value: string, ...origins: string[]): SecretValue => ({ placeholder: P, name: 'key', value, origins });
const echo = () => openHttpTarget((_, response) => response.end('ok'));

describe('a value takes the place of its placeholder where the bytes leave', () => {
  it('percent-encoded in the path and the query, once', async () => {
    const target = await echo();
    await sendRequest(get(`${target.origin}/a/${P}/b?key=${P}&x=%2B`), { allow: allow(target), secrets: [secret(VALUE, target.origin)] });
    const url = new URL(target.seen[0]?.url ?? '', target.origin);
    expect(decodeURIComponent(url.pathname.split('/')[2] ?? '')).toBe(VALUE);
    expect(url.pathname.endsWith('/b')).toBe(true);
    expect([...url.searchParams]).toEqual([
      ['key', VALUE],
      ['x', '+'],
    ]);
    await target.close();
  });

  it('as it is in a header, the inside of a string in JSON, form-encoded in a form, as it is in text', async () => {
    const target = await echo();
    await sendRequest(get(target.origin, { headers: { 'X-Key': `a ${P} b` } }), { allow: allow(target), secrets: [secret('q"\\&', target.origin)] });
    expect(target.seen[0]?.headers['x-key']).toBe('a q"\\& b');
    const value = 'q"\\\n&=+ %';
    const body = async (type: string, text: string) => {
      const result = await sendRequest(get(target.origin, { method: 'POST', headers: { 'Content-Type': type }, body: text }), {
        allow: allow(target),
        secrets: [secret(value, target.origin)],
      });
      expect(result.kind).toBe('response');
      return target.seen.at(-1)?.body ?? '';
    };
    expect(JSON.parse(await body('application/json', `{"a":"x${P}","b":["${P}"]}`))).toEqual({ a: `x${value}`, b: [value] });
    expect(JSON.parse(await body('application/vnd.x+json; charset=utf-8', `{"a":"${P}"}`))).toEqual({ a: value });
    expect(JSON.parse(await body('text/plain', `{"a":"${P}"}`))).toEqual({ a: value });
    expect([...new URLSearchParams(await body('application/x-www-form-urlencoded', `a=${P}&b=1`))]).toEqual([
      ['a', value],
      ['b', '1'],
    ]);
    expect(await body('text/plain', `a ${P} b`)).toBe(`a ${value} b`);
    await target.close();
  });

  it('in one pass: a value that looks like a placeholder stays text', async () => {
    const target = await echo();
    const secrets = [secret(Q, target.origin), { placeholder: Q, name: 'other', value: 'leaked', origins: [target.origin] }];
    await sendRequest(get(target.origin, { method: 'POST', body: `${P} ${Q}` }), { allow: allow(target), secrets });
    expect(target.seen[0]?.body).toBe(`${Q} leaked`);
    await target.close();
  });

  it('what only looks like a placeholder stays text', async () => {
    const target = await echo();
    await sendRequest(get(target.origin, { method: 'POST', body: `${P} ${Q} ${P.toUpperCase()}` }), {
      allow: allow(target),
      secrets: [secret('v', target.origin)],
    });
    expect(target.seen[0]?.body).toBe(`v ${Q} ${P.toUpperCase()}`);
    await target.close();
  });
});

describe('a value stays where it may go', () => {
  it.each([
    ['the URL', (origin: string) => get(`${origin}/?k=${P}`)],
    ['a header', (origin: string) => get(origin, { headers: { accept: P } })],
    ['the body', (origin: string) => get(origin, { method: 'POST', body: `{"k":"${P}"}` })],
  ])('no connection is made when it stands in %s and the origin is another', async (_, request) => {
    const target = await echo();
    const result = await sendRequest(request(target.origin), { allow: allow(target), secrets: [secret('hush-hush', 'https://api.example.test')] });
    expect(result).toMatchObject({ kind: 'error', code: 'secret_not_allowed', mayHaveBeenSent: false, message: expect.stringContaining('"key"') });
    expect(JSON.stringify(result)).not.toContain('hush');
    expect(target.connections()).toBe(0);
    await target.close();
  });

  it.each(['a\r\nX-Evil: 1', 'a\nb', 'a\0b', 'é', '\u2028'])('%j in a header is refused, naming the secret and the header', async (value) => {
    const target = await echo();
    const result = await sendRequest(get(target.origin, { headers: { 'X-Key': P } }), { allow: allow(target), secrets: [secret(value, target.origin)] });
    expect(result).toMatchObject({ kind: 'error', code: 'request_invalid', mayHaveBeenSent: false, message: expect.stringMatching(/"key".*x-key/) });
    expect(target.connections()).toBe(0);
    await target.close();
  });

  it.each(['.', '..'])('a value %j in the path makes no other address', async (value) => {
    const target = await echo();
    const result = await sendRequest(get(`${target.origin}/a/${P}/b`), { allow: allow(target), secrets: [secret(value, target.origin)] });
    expect(result).toMatchObject({ kind: 'error', code: 'request_invalid' });
    expect(target.connections()).toBe(0);
    await target.close();
  });

  it('a body that its values make too large is not sent', async () => {
    const target = await echo();
    const request = get(target.origin, { method: 'POST', body: P, maxRequestBytes: 100 });
    const result = await sendRequest(request, { allow: allow(target), secrets: [secret('x'.repeat(101), target.origin)] });
    expect(result).toMatchObject({ kind: 'error', code: 'request_invalid', mayHaveBeenSent: false });
    await target.close();
  });
});

describe('F36: secrets and redirects', () => {
  const HEADERS = { Authorization: `Bearer ${P}`, 'X-Api-Key': P, Cookie: `sid=${P}`, 'Content-Type': 'application/json' };
  const CANARY = 's3cr3t-F36/+x';
  const everything = (target: LocalTarget) => JSON.stringify(target.seen);
  const forms = [CANARY, encodeURIComponent(CANARY), Buffer.from(CANARY).toString('base64'), P];

  type Elsewhere = { name: string; host: (b: LocalTarget) => string };
  const places: Elsewhere[] = [
    { name: 'another port', host: ({ port }) => `127.0.0.1:${port}` },
    { name: 'another host', host: ({ port }) => `other.example.test:${port}` },
  ];
  const matrix = [301, 302, 303, 307, 308].flatMap((status) =>
    places.flatMap((place) => [true, false].map((followRedirects) => ({ status, place, followRedirects, where: place.name }))),
  );

  it.each(matrix)('F36: a $status to $where (followed: $followRedirects) brings it no credential', async ({ status, place, followRedirects }) => {
    const b = await echo();
    const a = await openHttpTarget((_, response) => response.writeHead(status, { location: `http://${place.host(b)}/moved` }).end());
    const { lookup } = answerNames({ 'other.example.test': [['127.0.0.1']] });
    const request = get(`${a.origin}/?key=${P}`, { method: 'POST', headers: HEADERS, body: '{"a":1}', followRedirects });
    const result = await sendRequest(request, { allow: allow(a, b), lookup, secrets: [secret(CANARY, a.origin)] });
    expect(result).toMatchObject({ kind: 'response', status: followRedirects ? 200 : status });
    expect(a.seen[0]?.headers).toMatchObject({ authorization: `Bearer ${CANARY}`, 'x-api-key': CANARY, cookie: `sid=${CANARY}` });
    expect(b.seen).toHaveLength(followRedirects ? 1 : 0);
    if (followRedirects) expect(b.seen[0]).toMatchObject(status >= 307 ? { method: 'POST', body: '{"a":1}' } : { method: 'GET', body: '' });
    for (const form of forms) expect(everything(b)).not.toContain(form);
    await Promise.all([a.close(), b.close()]);
  });

  it.each([307, 308])('F36: a %i that would take a secret in the body to another origin is refused before a connection', async (status) => {
    const b = await echo();
    const a = await openHttpTarget((_, response) => response.writeHead(status, { location: `${b.origin}/moved` }).end());
    const request = get(a.origin, { method: 'POST', body: `{"k":"${P}"}`, followRedirects: true });
    const result = await sendRequest(request, { allow: allow(a, b), secrets: [secret(CANARY, a.origin)] });
    expect(result).toMatchObject({ kind: 'error', code: 'secret_not_allowed', mayHaveBeenSent: true, head: { status } });
    expect(b.connections()).toBe(0);
    await Promise.all([a.close(), b.close()]);
  });

  it.each(forms.slice(0, 3))('F36: a Location that carries the value itself (%s) to another origin is refused before a connection', async (form) => {
    const b = await echo();
    const a = await openHttpTarget((_, response) => response.writeHead(302, { location: `${b.origin}/?key=${form}` }).end());
    const result = await sendRequest(get(`${a.origin}/?key=${P}`, { followRedirects: true }), { allow: allow(a, b), secrets: [secret(CANARY, a.origin)] });
    expect(result).toMatchObject({ kind: 'error', code: 'secret_not_allowed', mayHaveBeenSent: true });
    expect(b.connections()).toBe(0);
    await Promise.all([a.close(), b.close()]);
  });

  it('F36: a secret that may go to both goes along in the body, and is filled in anew', async () => {
    const b = await echo();
    const a = await openHttpTarget((_, response) => response.writeHead(307, { location: `${b.origin}/moved` }).end());
    const request = get(a.origin, { method: 'POST', body: `{"k":"${P}"}`, followRedirects: true });
    await sendRequest(request, { allow: allow(a, b), secrets: [secret(CANARY, a.origin, b.origin)] });
    expect([a.seen[0]?.body, b.seen[0]?.body]).toEqual([JSON.stringify({ k: CANARY }), JSON.stringify({ k: CANARY })]);
    await Promise.all([a.close(), b.close()]);
  });

  it('F36: fifty redirects to itself keep the secret at home and end after five', async () => {
    const a = await openHttpTarget((_, response) => response.writeHead(307, { location: '/again' }).end());
    const request = get(a.origin, { method: 'POST', headers: HEADERS, body: `"${P}"`, followRedirects: true });
    const result = await sendRequest(request, { allow: allow(a), secrets: [secret(CANARY, a.origin)] });
    expect(result).toMatchObject({ kind: 'response', status: 307, redirectRefused: expect.stringContaining('5 redirects') });
    expect(a.seen.map(({ headers }) => headers['x-api-key'])).toEqual(Array(6).fill(CANARY));
    await a.close();
  });
});
