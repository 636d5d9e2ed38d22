import { afterAll, describe, expect, it } from 'vitest';
import { nextHop } from '../src/next-hop.js';
import { closeEgress, MAX_REDIRECTS, sendRequest } from '../src/send-request.js';
import { allow, answerNames, get, type LocalTarget, openHttpTarget } from './local-target.js';

afterAll(closeEgress);

const SECRETS = {
  Authorization: 'Bearer s3cr3t',
  Cookie: 'sid=s3cr3t',
  'Proxy-Authorization': 'Basic s3cr3t',
  'X-Api-Key': 's3cr3t',
  'Webhook-Signature': 's3cr3t',
};
const HEADERS = { ...SECRETS, 'Content-Type': 'application/json', 'Idempotency-Key': 'k-1', 'Accept-Language': 'en' };
const post = (url: string, followRedirects = true) => get(url, { method: 'POST', headers: HEADERS, body: '{"a":1}', followRedirects });

async function openPair(status: number, locationOf: (b: LocalTarget) => string) {
  const b = await openHttpTarget((_, response) => response.end('b'));
  const a = await openHttpTarget((seen, response) => {
    if (seen.url === '/same') response.end('same');
    else response.writeHead(status, { location: locationOf(b) }).end();
  });
  return { a, b, close: () => Promise.all([a.close(), b.close()]) };
}

describe('F36: redirects', () => {
  it.each([301, 302, 303, 307, 308])('F36: a %i is handed back as it is by default and its target sees nothing', async (status) => {
    const { a, b, close } = await openPair(status, (target) => `${target.origin}/moved`);
    const result = await sendRequest(post(a.origin, false), { allow: allow(a, b) });
    expect(result).toMatchObject({ kind: 'response', status, headers: { location: `${b.origin}/moved` }, redirectRefused: null });
    expect(a.seen).toHaveLength(1);
    expect(b.connections()).toBe(0);
    await close();
  });

  it.each([301, 302, 303])('F36: a followed %i becomes GET without a body, and no secret header reaches another origin', async (status) => {
    const { a, b, close } = await openPair(status, (target) => `${target.origin}/moved?x=1#part`);
    const result = await sendRequest(post(a.origin), { allow: allow(a, b) });
    expect(result).toMatchObject({ kind: 'response', status: 200 });
    expect(b.seen).toHaveLength(1);
    expect(b.seen[0]).toMatchObject({ method: 'GET', url: '/moved?x=1', body: '' });
    expect(JSON.stringify(b.seen[0]?.headers)).not.toContain('s3cr3t');
    expect(b.seen[0]?.headers['content-type']).toBeUndefined();
    expect(b.seen[0]?.headers['content-length']).toBeUndefined();
    await close();
  });

  it.each([307, 308])('F36: a followed %i keeps method and body, and no secret header reaches another origin', async (status) => {
    const { a, b, close } = await openPair(status, (target) => `${target.origin}/moved`);
    const result = await sendRequest(post(a.origin), { allow: allow(a, b) });
    expect(result).toMatchObject({ kind: 'response', status: 200 });
    expect(b.seen[0]).toMatchObject({ method: 'POST', url: '/moved', body: '{"a":1}' });
    expect(b.seen[0]?.headers).toMatchObject({ 'content-type': 'application/json', 'idempotency-key': 'k-1', 'accept-language': 'en' });
    expect(JSON.stringify(b.seen[0]?.headers)).not.toContain('s3cr3t');
    await close();
  });

  it('F36: another host on the same port is another origin', async () => {
    const target = await openHttpTarget((seen, response) => {
      if (seen.headers.host?.startsWith('one.')) response.writeHead(307, { location: `http://two.example.test:${target.port}/` }).end();
      else response.end('two');
    });
    const { lookup } = answerNames({ 'one.example.test': [['127.0.0.1']], 'two.example.test': [['127.0.0.1']] });
    await sendRequest(post(`http://one.example.test:${target.port}/`), { allow: allow(target), lookup });
    expect(target.seen.map(({ headers }) => headers.authorization)).toEqual([SECRETS.Authorization, undefined]);
    await target.close();
  });

  it('F36: headers stay on the same origin, where a relative Location leads', async () => {
    const { a, close } = await openPair(307, () => '/same');
    const result = await sendRequest(post(`${a.origin}/first`), { allow: allow(a) });
    expect(result).toMatchObject({ kind: 'response', status: 200 });
    expect(a.seen[1]).toMatchObject({ method: 'POST', url: '/same', body: '{"a":1}' });
    expect(a.seen[1]?.headers).toMatchObject({ authorization: SECRETS.Authorization, cookie: SECRETS.Cookie, 'x-api-key': 's3cr3t' });
    await close();
  });

  it('F36: a redirect to itself ends after five hops with the last 3xx', async () => {
    const { a, close } = await openPair(302, () => '/again');
    const result = await sendRequest(post(a.origin), { allow: allow(a) });
    expect(result).toMatchObject({ kind: 'response', status: 302, redirectRefused: `there were ${MAX_REDIRECTS} redirects before it` });
    expect(a.seen).toHaveLength(MAX_REDIRECTS + 1);
    await close();
  });

  it('F36: a redirect to an address that is not allowed fails, and says that the first request was sent', async () => {
    const { a, b, close } = await openPair(307, (target) => target.origin);
    const result = await sendRequest(post(a.origin), { allow: allow(a) });
    expect(result).toMatchObject({ kind: 'error', code: 'address_not_allowed', mayHaveBeenSent: true, head: { status: 307 } });
    expect(b.connections()).toBe(0);
    await close();
  });

  it('F36: a second hop that cannot be reached still counts as sent', async () => {
    const { a, b, close } = await openPair(307, (target) => target.origin);
    await b.close();
    const result = await sendRequest(post(a.origin), { allow: allow(a, b) });
    expect(result).toMatchObject({ kind: 'error', code: 'network', mayHaveBeenSent: true });
    await close();
  });

  it('F36: from https to http is refused, from http to https and from https to https is not', () => {
    const hop = { method: 'POST', headers: { authorization: 'x' }, body: Buffer.from('b') } as const;
    const https = { ...hop, url: new URL('https://one.example.test/a') };
    expect(nextHop(https, 307, 'http://one.example.test/a')).toMatchObject({ kind: 'refused', why: expect.stringContaining('https to http') });
    expect(nextHop(https, 307, '//one.example.test/b')).toMatchObject({ kind: 'hop', hop: { headers: { authorization: 'x' } } });
    expect(nextHop({ ...hop, url: new URL('http://one.example.test/a') }, 307, 'https://one.example.test/a')).toMatchObject({
      kind: 'hop',
      hop: { headers: {} },
    });
  });

  it('F36: what was dropped does not come back with a later hop to the first origin', async () => {
    const b = await openHttpTarget((_, response) => response.writeHead(307, { location: `${a.origin}/back` }).end());
    const a = await openHttpTarget((seen, response) => {
      if (seen.url === '/back') response.end('back');
      else response.writeHead(307, { location: b.origin }).end();
    });
    await sendRequest(post(a.origin), { allow: allow(a, b) });
    expect(a.seen.map(({ url, headers }) => [url, headers.authorization])).toEqual([
      ['/', SECRETS.Authorization],
      ['/back', undefined],
    ]);
    await Promise.all([a.close(), b.close()]);
  });

  it('F36: a HEAD stays a HEAD and a Location that cannot be read is not followed', async () => {
    const { a, b, close } = await openPair(303, (target) => target.origin);
    await sendRequest(get(a.origin, { method: 'HEAD', followRedirects: true }), { allow: allow(a, b) });
    expect(b.seen.map(({ method }) => method)).toEqual(['HEAD']);
    await close();
    const bad = await openPair(302, () => 'http://[');
    const result = await sendRequest(post(bad.a.origin), { allow: allow(bad.a) });
    expect(result).toMatchObject({ kind: 'response', status: 302, redirectRefused: 'its Location cannot be read' });
    await bad.close();
  });
});
