import { afterAll, describe, expect, it } from 'vitest';
import { checkTarget } from '../src/check-target.js';
import { closeEgress, sendRequest } from '../src/send-request.js';
import { allow, answerNames, get, type LocalTarget, openHttpTarget } from './local-target.js';

const open = new Set<LocalTarget>();
afterAll(async () => {
  await closeEgress();
  await Promise.all([...open].map((target) => target.close()));
});

async function openOk(): Promise<LocalTarget> {
  const target = await openHttpTarget((_, response) => response.end('ok'));
  open.add(target);
  return target;
}

describe('F42: building the request', () => {
  it('F42: the query goes out once and unchanged, and the fragment stays', async () => {
    const target = await openOk();
    const query = '?z=%2F&q=a%2Bb%20c%26d%3D%C3%A9%2F%252B&list=x&list=y&empty=';
    await sendRequest(get(`${target.origin}/p%20q/é${query}#frag`), { allow: allow(target) });
    expect(target.seen[0]?.url).toBe(`/p%20q/%C3%A9${query}`);
    const sent = new URL(target.seen[0]?.url ?? '', target.origin).searchParams;
    expect([sent.get('z'), sent.get('q'), sent.getAll('list'), sent.get('empty')]).toEqual(['/', 'a+b c&d=é/%2B', ['x', 'y'], '']);
  });

  it('F42: a host outside ASCII goes out as punycode', async () => {
    const target = await openOk();
    const { lookup, calls } = answerNames({ 'xn--bcher-kva.example.test': [['127.0.0.1']] });
    const result = await sendRequest(get(`http://bücher.example.test:${target.port}/`), { allow: allow(target), lookup });
    expect(result).toMatchObject({ kind: 'response', status: 200 });
    expect(calls).toEqual(['xn--bcher-kva.example.test']);
    expect(target.seen[0]?.headers.host).toBe(`xn--bcher-kva.example.test:${target.port}`);
  });

  it('F42: an IPv6 literal is dialled when it is allowed', async () => {
    const target = await openOk();
    // The mapped spelling is an IPv6 literal to the URL and reaches the IPv4 listener.
    const result = await sendRequest(get(`http://[::ffff:127.0.0.1]:${target.port}/`), { allow: allow(target) });
    expect(result).toMatchObject({ kind: 'response', status: 200 });
    expect(target.seen[0]?.headers.host).toBe(`[::ffff:7f00:1]:${target.port}`);
    const checked = checkTarget('http://[::1]:8080/', allow('[::1]:8080'));
    expect(checked.kind === 'target' && checked.url.host).toBe('[::1]:8080');
    // Nobody listens there: the refusal comes from the machine and not from the guard.
    expect(await sendRequest(get('http://[::1]:9/'), { allow: allow('[::1]:9') })).toMatchObject({ kind: 'error', code: 'network', mayHaveBeenSent: false });
  });

  it.each([
    ['X-Title', 'Žižkov 🎉'],
    ['X-Title', 'a\r\nX-Evil: 1'],
    ['X-Title', 'a\nX-Evil: 1'],
    ['X-Title', 'a\rb'],
    ['X-Title', 'a\0b'],
    ['X-Title', 'caf\u00e9'],
    ['X-Title', 'a\x7fb'],
    ['X-Title', 'a\u0085b'],
    ['X Title', 'a'],
    ['X-Title:', 'a'],
    ['X-Títle', 'a'],
    ['X\r\nEvil', 'a'],
    ['', 'a'],
  ])('F42: the header %j with %j is refused by its name and nothing is sent', async (name, value) => {
    const target = await openOk();
    const result = await sendRequest(get(target.origin, { headers: { [name]: value } }), { allow: allow(target) });
    expect(result).toMatchObject({ kind: 'error', code: 'request_invalid', mayHaveBeenSent: false });
    expect(result.kind === 'error' && result.message).toContain(name.startsWith('X-Title') && !name.includes(':') ? 'X-Title' : 'header name');
    expect(result.kind === 'error' && result.message).not.toContain('Evil: 1');
    expect(target.connections()).toBe(0);
  });

  it.each(['Host', 'host', 'Content-Length', 'Transfer-Encoding', 'Connection', 'Upgrade', 'Expect', 'TE', 'Trailer', 'Keep-Alive', 'Proxy-Connection'])(
    'F42: the header %s is the engine’s own',
    async (name) => {
      const target = await openOk();
      const result = await sendRequest(get(target.origin, { headers: { [name]: 'inner.example.test' } }), { allow: allow(target) });
      expect(result).toMatchObject({ kind: 'error', code: 'request_invalid', mayHaveBeenSent: false });
      expect(result.kind === 'error' && result.message).toContain(name);
      expect(target.connections()).toBe(0);
    },
  );

  it('F42: visible ASCII with spaces and tabs arrives as it was given', async () => {
    const target = await openOk();
    const value = `a\tb ${Array.from({ length: 94 }, (_, i) => String.fromCharCode(33 + i)).join('')}`;
    await sendRequest(get(target.origin, { headers: { 'X-Title': value, 'X-Empty': '' } }), { allow: allow(target) });
    expect(target.seen[0]?.headers).toMatchObject({ 'x-title': value, 'x-empty': '' });
  });

  it('refuses a header that is given twice in different case', async () => {
    const target = await openOk();
    const result = await sendRequest(get(target.origin, { headers: { 'X-A': '1', 'x-a': '2' } }), { allow: allow(target) });
    expect(result).toMatchObject({ kind: 'error', code: 'request_invalid', message: expect.stringContaining('x-a') });
  });

  it.each(['POST', 'PUT', 'PATCH', 'DELETE'] as const)('sends the body of a %s as UTF-8 with its length in bytes', async (method) => {
    const target = await openOk();
    await sendRequest(get(target.origin, { method, body: '{"é":"🎉"}' }), { allow: allow(target) });
    expect(target.seen[0]).toMatchObject({ method, body: '{"é":"🎉"}' });
    expect(target.seen[0]?.headers['content-length']).toBe('13');
  });

  it('fills in accept, accept-encoding and user-agent and nothing else', async () => {
    const target = await openOk();
    await sendRequest(get(target.origin), { allow: allow(target) });
    expect(target.seen[0]?.headers).toEqual({
      host: `127.0.0.1:${target.port}`,
      connection: 'keep-alive',
      accept: '*/*',
      'accept-encoding': 'identity',
      'user-agent': 'Onward',
    });
  });

  it('refuses a body over the limit with nothing sent, and lets one at the limit through', async () => {
    const target = await openOk();
    const over = get(target.origin, { method: 'POST', body: 'é'.repeat(51), maxRequestBytes: 101 });
    expect(await sendRequest(over, { allow: allow(target) })).toMatchObject({ kind: 'error', code: 'request_invalid', mayHaveBeenSent: false });
    expect(target.connections()).toBe(0);
    expect(await sendRequest({ ...over, maxRequestBytes: 102 }, { allow: allow(target) })).toMatchObject({ kind: 'response' });
  });

  it.each(['', 'example.test', '/path', 'http://', 'http://a b/', 'http://1.2.3.4.5/', 'http://[::1', 'http://example.test:99999/'])(
    'refuses %j, which is no URL',
    async (url) => {
      expect(await sendRequest(get(url), { allow: allow() })).toMatchObject({ kind: 'error', code: 'request_invalid', mayHaveBeenSent: false });
    },
  );
});

describe('F39: secrets in errors', () => {
  it.each([
    ['a user part', () => 'http://u:s3cr3t-F39@127.0.0.1/?key=s3cr3t-F39'],
    ['a refused address', () => 'http://10.0.0.1/s3cr3t-F39?key=s3cr3t-F39'],
    ['a refused connection', () => 'http://127.0.0.1:9/s3cr3t-F39?key=s3cr3t-F39'],
    ['a failed TLS handshake', (port: number) => `https://127.0.0.1:${port}/s3cr3t-F39?key=s3cr3t-F39`],
    ['a time-out', (port: number) => `http://127.0.0.1:${port}/s3cr3t-F39?key=s3cr3t-F39`],
    ['a URL that cannot be read', () => 'http://[s3cr3t-F39'],
  ] as const)('F39: the sentence about %s carries no path, query, user part or header value', async (_, urlOf) => {
    const target = await openHttpTarget(() => undefined);
    open.add(target);
    const request = get(urlOf(target.port), { headers: { Authorization: 'Bearer s3cr3t-F39' }, timeoutMs: 500 });
    const result = await sendRequest(request, { allow: allow(target, '127.0.0.1:9') });
    expect(result.kind).toBe('error');
    expect(JSON.stringify(result)).not.toContain('s3cr3t');
  });
});
