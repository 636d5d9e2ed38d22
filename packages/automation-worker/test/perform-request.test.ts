import { createServer, type RequestListener } from 'node:http';
import { type AddressInfo, createServer as createTcpServer, type Server, type Socket } from 'node:net';
import { gzipSync } from 'node:zlib';
import { outboundRequestSchema, type OutboundRequest } from '@onward/contracts/outbound';
import { outcomeSchema, type Outcome } from '@onward/contracts/outcome';
import { parseAllowList } from '@onward/egress/allow-list';
import { closeEgress } from '@onward/egress/send-request';
import { afterAll, describe, expect, it } from 'vitest';
import { MAX_TEXT_BYTES, performRequest } from '../src/perform-request.js';

const NOW = new Date('2026-10-21T07:20:00Z');

const closers: (() => Promise<void>)[] = [];
afterAll(async () => {
  await closeEgress();
  await Promise.all(closers.map((close) => close()));
});

type Target = { port: number; connections: () => number };

async function listen(server: Server): Promise<Target> {
  const sockets = new Set<Socket>();
  let connections = 0;
  server.on('connection', (socket: Socket) => {
    connections++;
    sockets.add(socket.on('error', () => undefined));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  closers.push(
    () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        for (const socket of sockets) socket.destroy();
      }),
  );
  return { port: (server.address() as AddressInfo).port, connections: () => connections };
}

const openHttp = (listener: RequestListener) => listen(createServer(listener));
const answering = (status: number, headers: Record<string, string | string[]>, body: string | Buffer = '') =>
  openHttp((request, response) => {
    request.resume();
    response.writeHead(status, headers).end(body);
  });

async function perform(target: Target, changes: Partial<OutboundRequest> = {}, signal?: AbortSignal): Promise<Outcome> {
  const list = parseAllowList(`127.0.0.1:${target.port}`);
  if (!list.ok) throw new Error(list.errors.join());
  const request = outboundRequestSchema.parse({
    method: 'POST',
    url: `http://127.0.0.1:${target.port}/hook?key=s3cr3t`,
    headers: { 'Content-Type': 'application/json' },
    body: '{}',
    timeoutMs: 10_000,
    maxResponseBytes: 200_000,
    followRedirects: false,
    ...changes,
  });
  const outcome = await performRequest(request, { allow: list.allow, now: () => NOW, signals: signal ? [signal] : [] });
  // Whatever comes out crosses the wire under this schema.
  return outcomeSchema.parse(outcome);
}

const JSON_TYPE = { 'content-type': 'application/json' };

describe('F35: empty or wrong body', () => {
  it('F35a: a 204 that claims to be JSON is done with no body', async () => {
    expect(await perform(await answering(204, JSON_TYPE))).toEqual({
      kind: 'done',
      output: { status: 204, headers: JSON_TYPE, body: null, bodyKind: 'empty', bytes: 0 },
    });
  });

  it('F35b: a 201 of length zero that claims to be JSON is done with no body', async () => {
    const outcome = await perform(await answering(201, { ...JSON_TYPE, 'content-length': '0', location: '/things/1', 'x-other': 'x' }));
    expect(outcome).toEqual({
      kind: 'done',
      output: { status: 201, headers: { ...JSON_TYPE, location: '/things/1' }, body: null, bodyKind: 'empty', bytes: 0 },
    });
  });

  it('F35c: a body that is not the JSON it claims to be is done with the raw text and a warning', async () => {
    expect(await perform(await answering(200, JSON_TYPE, '<html>'))).toEqual({
      kind: 'done',
      output: { status: 200, headers: JSON_TYPE, body: '<html>', bodyKind: 'text', bytes: 6 },
      warnings: [expect.stringContaining('not the JSON')],
    });
  });

  it('F35d: JSON under text/plain stays text', async () => {
    const outcome = await perform(await answering(200, { 'content-type': 'text/plain' }, '{"a":1}'));
    expect(outcome).toMatchObject({ kind: 'done', output: { body: '{"a":1}', bodyKind: 'text' } });
    expect(outcome).not.toHaveProperty('warnings');
  });

  it.each([
    ['null', null],
    ['"x"', 'x'],
    ['7', 7],
    ['false', false],
    ['[]', []],
    ['{"a":{"b":[1]}}', { a: { b: [1] } }],
    ['\ufeff{"a":"é"}', { a: 'é' }],
  ])('F35e: the JSON %s is done with its value', async (body, value) => {
    for (const type of ['application/json', 'application/problem+json; charset=utf-8', 'Application/JSON']) {
      expect(await perform(await answering(200, { 'content-type': type }, body))).toMatchObject({ kind: 'done', output: { body: value, bodyKind: 'json' } });
    }
  });

  it('F35f: a 500 with HTML is worth another try and shows its status and the first bytes', async () => {
    const outcome = await perform(await answering(500, { 'content-type': 'text/html' }, `<html>${'é'.repeat(1_000)}`));
    expect(outcome).toEqual({
      kind: 'failed',
      failure: { code: 'http_retryable', message: 'The target answered 500', detail: { status: 500, body: `<html>${'é'.repeat(494)}` } },
    });
  });

  it('F35g: a body cut short of its length is worth another try', async () => {
    const target = await listen(createTcpServer((socket) => socket.once('data', () => socket.end('HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nshort'))));
    expect(await perform(target)).toMatchObject({ kind: 'failed', failure: { code: 'response_cut', detail: { status: 200, mayHaveBeenSent: true } } });
  });
});

describe('the body of a success', () => {
  it('is text in the charset of its type, or UTF-8 when the charset is unknown or missing', async () => {
    const latin = Buffer.from('caf\u00e9', 'latin1');
    expect(await perform(await answering(200, { 'content-type': 'text/plain; charset="ISO-8859-1"' }, latin))).toMatchObject({ output: { body: 'café' } });
    expect(await perform(await answering(200, { 'content-type': 'text/plain; charset=made-up' }, 'café'))).toMatchObject({ output: { body: 'café' } });
    expect(await perform(await answering(200, {}, 'café'))).toMatchObject({ output: { body: 'café', bodyKind: 'text' } });
  });

  it('is cut to 64 KB of text with a warning, never inside a character', async () => {
    const outcome = await perform(await answering(200, { 'content-type': 'text/plain' }, `a${'é'.repeat(MAX_TEXT_BYTES / 2)}`));
    expect(outcome).toMatchObject({ kind: 'done', output: { bytes: MAX_TEXT_BYTES + 1, bodyKind: 'text' }, warnings: [expect.stringContaining('65536')] });
    expect(outcome).toMatchObject({ output: { body: `a${'é'.repeat(MAX_TEXT_BYTES / 2 - 1)}` } });
    const whole = await perform(await answering(200, { 'content-type': 'text/plain' }, 'x'.repeat(MAX_TEXT_BYTES)));
    expect(whole).not.toHaveProperty('warnings');
  });

  it('is decoded, and kept as it came with a warning when it cannot be', async () => {
    expect(await perform(await answering(200, { ...JSON_TYPE, 'content-encoding': 'gzip' }, gzipSync('{"a":1}')))).toMatchObject({
      output: { body: { a: 1 }, bytes: 7 },
    });
    expect(await perform(await answering(200, { ...JSON_TYPE, 'content-encoding': 'zstd' }, '{"a":1}'))).toMatchObject({
      kind: 'done',
      output: { bodyKind: 'text' },
      warnings: [expect.stringContaining('zstd')],
    });
  });

  it.each([
    ['is nested too deep', `${'['.repeat(33)}${']'.repeat(33)}`],
    ['is nested absurdly deep', `${'['.repeat(90_000)}${']'.repeat(90_000)}`],
    ['holds a number that is none', '[1e999]'],
    ['holds a NUL', '{"a":"x\\u0000"}'],
    ['holds a NUL in a key', '{"a\\u0000":1}'],
    ['holds half a surrogate pair', '["\\ud800"]'],
  ])('stays text with a warning when its JSON %s', async (_, body) => {
    const outcome = await perform(await answering(200, JSON_TYPE, body));
    expect(outcome).toMatchObject({
      kind: 'done',
      output: { bodyKind: 'text' },
      warnings: [expect.stringContaining('cannot be stored'), ...(body.length > MAX_TEXT_BYTES ? [expect.anything()] : [])],
    });
  });

  it.each([
    ['grows when it is written out', `[${'1e20,'.repeat(20_000)}1]`],
    ['is long', `["${'x'.repeat(300_000)}"]`],
  ])('keeps the beginning as text, and is done once, when its JSON %s beyond what is kept', async (_, body) => {
    const outcome = await perform(await answering(200, JSON_TYPE, body), { maxResponseBytes: 1_048_576 });
    expect(outcome).toMatchObject({
      kind: 'done',
      output: { status: 200, bodyKind: 'text' },
      warnings: [expect.stringContaining('its beginning is kept'), expect.anything()],
    });
    expect(JSON.stringify(outcome).length).toBeLessThan(100_000);
  });

  it('takes JSON of the greatest depth, whole surrogate pairs, and replaces NUL in text', async () => {
    expect(await perform(await answering(200, JSON_TYPE, `${'['.repeat(32)}${']'.repeat(32)}`))).toMatchObject({ output: { bodyKind: 'json' } });
    expect(await perform(await answering(200, JSON_TYPE, '["\\ud83c\\udf89"]'))).toMatchObject({ output: { body: ['🎉'] } });
    expect(await perform(await answering(200, {}, 'a\0b'))).toMatchObject({ output: { body: 'a\ufffdb' } });
  });

  it('of a HEAD is empty', async () => {
    expect(await perform(await answering(200, JSON_TYPE), { method: 'HEAD', body: null })).toMatchObject({ output: { body: null, bodyKind: 'empty' } });
  });
});

describe('statuses', () => {
  it.each([408, 425, 429, 500, 502, 503, 504, 599])('%i is worth another try', async (status) => {
    expect(await perform(await answering(status, {}, 'no'))).toMatchObject({
      kind: 'failed',
      failure: { code: 'http_retryable', detail: { status, body: 'no' } },
    });
  });

  it.each([400, 401, 403, 404, 409, 410, 418, 422, 451])('%i is not', async (status) => {
    const outcome = await perform(await answering(status, { 'retry-after': '120' }, 'no'));
    expect(outcome).toEqual({ kind: 'failed', failure: { code: 'http_permanent', message: `The target answered ${status}`, detail: { status, body: 'no' } } });
  });

  it.each([301, 302, 303, 307, 308])('F36: a %i fails for good and shows its status and Location', async (status) => {
    const other = await answering(200, {});
    const location = `http://127.0.0.1:${other.port}/there`;
    expect(await perform(await answering(status, { location }))).toMatchObject({
      kind: 'failed',
      failure: { code: 'redirect_refused', message: `The target answered ${status} with Location ${location}`, detail: { status, location } },
    });
    expect(other.connections()).toBe(0);
  });

  it('F36: a redirect that is followed too often fails for good and says why', async () => {
    expect(await perform(await answering(302, { location: '/again' }), { followRedirects: true })).toMatchObject({
      kind: 'failed',
      failure: { code: 'redirect_refused', message: expect.stringContaining('5 redirects') },
    });
  });

  it('a 3xx without Location fails for good', async () => {
    expect(await perform(await answering(304, {}))).toMatchObject({ failure: { code: 'redirect_refused', detail: { status: 304, location: null } } });
  });

  it('an error page over the size cap fails by its status, a success by its size', async () => {
    const big = 'x'.repeat(200_001);
    expect(await perform(await answering(503, { 'retry-after': '60' }, big))).toMatchObject({ failure: { code: 'http_retryable', retryAfterMs: 60_000 } });
    expect(await perform(await answering(404, {}, big))).toMatchObject({ failure: { code: 'http_permanent' } });
    expect(await perform(await answering(200, {}, big))).toMatchObject({
      failure: { code: 'response_too_large', detail: { mayHaveBeenSent: true, status: 200 } },
    });
  });
});

describe('F37: 429/503 with Retry-After', () => {
  it.each([
    ['120', 120_000],
    ['Wed, 21 Oct 2026 07:28:00 GMT', 480_000],
    ['99999999999', 86_400_000],
    [['soon', '120'], 120_000],
    [['120', '240'], 120_000],
    [['Wed, 21 Oct 2026 07:28:00 GMT', '1'], 480_000],
    ['Wed, 21 Oct 2026 07:19:59 GMT', undefined],
    ['-1', undefined],
    ['0', undefined],
    ['soon', undefined],
    [undefined, undefined],
  ])('F37: %j asks for %s ms', async (value, expected) => {
    for (const status of [429, 503]) {
      const outcome = await perform(await answering(status, value === undefined ? {} : { 'retry-after': value }));
      expect(outcome.kind === 'failed' && outcome.failure.code).toBe('http_retryable');
      expect(outcome.kind === 'failed' && outcome.failure.retryAfterMs).toBe(expected);
    }
  });
});

describe('F38: slow drip', () => {
  it('F38: an answer that never comes is a time-out that may have been sent', async () => {
    const target = await openHttp(() => undefined);
    expect(await perform(target, { timeoutMs: 300 })).toMatchObject({ kind: 'failed', failure: { code: 'timeout', detail: { mayHaveBeenSent: true } } });
  });

  it('F38: a body that drips is a time-out too', async () => {
    const target = await openHttp((_, response) => {
      response.writeHead(200, { 'content-length': '1000' }).write('x');
    });
    expect(await perform(target, { timeoutMs: 300 })).toMatchObject({
      kind: 'failed',
      failure: { code: 'timeout', detail: { mayHaveBeenSent: true, status: 200 } },
    });
  });
});

describe('faults on the way', () => {
  it('F41: an inner address is refused for good', async () => {
    const target = await answering(200, {});
    expect(await perform(target, { url: 'http://127.0.0.2/' })).toMatchObject({
      failure: { code: 'address_not_allowed', message: expect.stringContaining('Address not allowed'), detail: { mayHaveBeenSent: false } },
    });
  });

  it('F42: a header value outside visible ASCII is refused for good and by its name', async () => {
    const target = await answering(200, {});
    const outcome = await perform(target, { headers: { 'X-Title': 'Žižkov 🎉' } });
    expect(outcome).toMatchObject({ failure: { code: 'request_invalid', message: expect.stringContaining('X-Title'), detail: { mayHaveBeenSent: false } } });
    expect(target.connections()).toBe(0);
  });

  it('a refused connection and a reset are faults of the network and tell whether bytes may have left', async () => {
    const target = await listen(createTcpServer((socket) => socket.once('data', () => socket.resetAndDestroy())));
    expect(await perform(target)).toMatchObject({ failure: { code: 'network', detail: { mayHaveBeenSent: true } } });
    await closers.pop()?.();
    expect(await perform(target)).toMatchObject({ failure: { code: 'network', detail: { mayHaveBeenSent: false } } });
  });

  it('F39: no failure shows the query of the URL', async () => {
    const target = await openHttp(() => undefined);
    expect(JSON.stringify(await perform(target, { timeoutMs: 200 }))).not.toContain('s3cr3t');
  });
});

describe('our own stop signal', () => {
  it('before the first byte leaves the attempt unspent and the target alone', async () => {
    const target = await answering(200, {});
    expect(await perform(target, {}, AbortSignal.abort())).toEqual({ kind: 'not_sent', why: 'stopping' });
    expect(target.connections()).toBe(0);
  });

  it('after the request has left makes it uncertain', async () => {
    const stop = new AbortController();
    const target = await openHttp(() => stop.abort());
    expect(await perform(target, {}, stop.signal)).toMatchObject({ kind: 'uncertain', failure: { code: 'process_died' } });
  });

  it('between headers and body makes it uncertain too', async () => {
    const stop = new AbortController();
    const target = await openHttp((_, response) => {
      response.writeHead(200, { 'content-length': '10' }).write('x', () => stop.abort());
    });
    expect(await perform(target, {}, stop.signal)).toMatchObject({ kind: 'uncertain', failure: { code: 'process_died' } });
  });
});
