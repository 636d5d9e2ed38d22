import type { Socket } from 'node:net';
import { brotliCompressSync, constants, deflateRawSync, deflateSync, gzipSync } from 'node:zlib';
import { afterAll, describe, expect, it } from 'vitest';
import { closeEgress, sendRequest, type SendRequest, type SendResult } from '../src/send-request.js';
import { allow, get, type LocalTarget, openHttpTarget, openTcpTarget } from './local-target.js';

const open = new Set<LocalTarget>();
afterAll(async () => {
  await closeEgress();
  await Promise.all([...open].map((target) => target.close()));
});

async function ask(target: LocalTarget, changes: Partial<SendRequest> = {}): Promise<SendResult> {
  open.add(target);
  return sendRequest(get(target.origin, changes), { allow: allow(target) });
}

/** Answers every request with these bytes and closes the connection. */
const answerBytes = (...pieces: (string | Buffer)[]) =>
  openTcpTarget((socket) => {
    socket.once('data', () => socket.end(Buffer.concat(pieces.map((piece) => Buffer.from(piece)))));
  });

const answerEncoded = (encoding: string | string[], body: Buffer) =>
  openHttpTarget((_, response) => response.setHeader('content-encoding', encoding).end(body));

const bodyText = (result: SendResult) => (result.kind === 'response' ? Buffer.from(result.body).toString() : result);

describe('compressed answers', () => {
  const text = 'compressed '.repeat(50);

  it.each([
    ['gzip', gzipSync(text)],
    ['GZIP', gzipSync(text)],
    ['x-gzip', gzipSync(text)],
    ['deflate', deflateSync(text)],
    ['deflate', deflateRawSync(text)],
    ['br', brotliCompressSync(text)],
    ['identity, gzip', gzipSync(text)],
    ['identity', Buffer.from(text)],
  ])('%s is undone', async (encoding, body) => {
    const result = await ask(await answerEncoded(encoding, body));
    expect(bodyText(result)).toBe(text);
    expect(result).toMatchObject({ undecoded: null, wireBytes: body.length });
  });

  it.each([
    ['gzip, gzip', gzipSync(gzipSync(text))],
    ['br, gzip', gzipSync(brotliCompressSync(text))],
    ['zstd', Buffer.from(text)],
    ['gzip', Buffer.from(text)],
    ['br', Buffer.from('\xff\xff\xff\xff', 'latin1')],
  ])('%s that cannot be undone is left as it is and named', async (encoding, body) => {
    const result = await ask(await answerEncoded(encoding, body));
    expect(result).toMatchObject({ kind: 'response', undecoded: encoding });
    expect(result.kind === 'response' && Buffer.from(result.body).equals(body)).toBe(true);
  });

  it('two Content-Encoding lines count as two codings', async () => {
    expect(await ask(await answerEncoded(['gzip', 'gzip'], gzipSync(gzipSync(text))))).toMatchObject({ kind: 'response', undecoded: 'gzip, gzip' });
  });

  it.each([
    ['gzip', gzipSync],
    ['deflate', deflateSync],
    ['br', (bytes: Buffer) => brotliCompressSync(bytes, { params: { [constants.BROTLI_PARAM_QUALITY]: 1 } })],
  ] as const)('a %s bomb ends at the cap on decoded bytes', async (encoding, compress) => {
    const bomb = compress(Buffer.alloc(50_000_000));
    expect(bomb.length).toBeLessThan(100_000); // below the cap on wire bytes
    const before = process.memoryUsage().arrayBuffers;
    const result = await ask(await answerEncoded(encoding, bomb), { maxResponseBytes: 100_000 });
    expect(result).toMatchObject({ kind: 'error', code: 'response_too_large', mayHaveBeenSent: true, head: { status: 200 } });
    expect(process.memoryUsage().arrayBuffers - before).toBeLessThan(20_000_000);
  });

  it('exactly the cap of decoded bytes is allowed', async () => {
    const body = gzipSync(Buffer.alloc(1_000, 'x'));
    const target = await answerEncoded('gzip', body);
    expect(await ask(target, { maxResponseBytes: 1_000 })).toMatchObject({ kind: 'response' });
    expect(await ask(target, { maxResponseBytes: 999 })).toMatchObject({ kind: 'error', code: 'response_too_large' });
  });

  it.each([
    ['gzip', gzipSync(text)],
    ['deflate', deflateSync(text)],
    ['br', brotliCompressSync(text)],
  ])('%s that ends early is a cut answer', async (encoding, body) => {
    expect(await ask(await answerEncoded(encoding, body.subarray(0, body.length - 5)))).toMatchObject({
      kind: 'error',
      code: 'response_cut',
      mayHaveBeenSent: true,
    });
  });
});

describe('the cap on wire bytes', () => {
  it('refuses an announced length before the body comes', async () => {
    const target = await openTcpTarget((socket) => {
      socket.once('data', () => socket.write('HTTP/1.1 200 OK\r\nContent-Length: 100001\r\n\r\n'));
    });
    expect(await ask(target)).toMatchObject({ kind: 'error', code: 'response_too_large', mayHaveBeenSent: true });
    await target.allSocketsClosed();
  });

  it('stops a body without a length at the cap and closes the socket', async () => {
    const target = await openHttpTarget((_, response) => {
      const piece = Buffer.alloc(10_000);
      const pump = () => {
        while (!response.destroyed && response.write(piece));
        response.once('drain', pump);
      };
      pump();
    });
    expect(await ask(target)).toMatchObject({ kind: 'error', code: 'response_too_large', mayHaveBeenSent: true });
    await target.allSocketsClosed();
  });

  it('counts a body without a length to the byte', async () => {
    const target = await answerBytes('HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n', Buffer.alloc(1_000));
    expect(await ask(target, { maxResponseBytes: 1_000 })).toMatchObject({ kind: 'response', wireBytes: 1_000 });
    expect(await ask(target, { maxResponseBytes: 999 })).toMatchObject({ kind: 'error', code: 'response_too_large' });
  });

  it('takes a body of exactly the cap', async () => {
    const target = await openHttpTarget((_, response) => response.end(Buffer.alloc(1_000)));
    expect(await ask(target, { maxResponseBytes: 1_000 })).toMatchObject({ kind: 'response', wireBytes: 1_000 });
    expect(await ask(target, { maxResponseBytes: 999 })).toMatchObject({ kind: 'error', code: 'response_too_large' });
  });

  it('refuses headers without end', async () => {
    const target = await answerBytes(`HTTP/1.1 200 OK\r\n${Array.from({ length: 2_000 }, (_, i) => `X-${i}: ${'y'.repeat(20)}\r\n`).join('')}\r\n`);
    expect(await ask(target)).toMatchObject({ kind: 'error', code: 'response_too_large', mayHaveBeenSent: true });
  });
});

describe('answers that break off', () => {
  it.each([
    ['a body shorter than its length', 'HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nshort'],
    ['a body shorter than its length, on a closing connection', 'HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 10\r\n\r\nshort'],
    ['chunks without an end', 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nshort\r\n'],
    ['a chunk shorter than its size', 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n10\r\nshort'],
    ['garbage for a chunk size', 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nshort\r\n'],
  ])('%s is a cut answer', async (_, bytes) => {
    expect(await ask(await answerBytes(bytes))).toMatchObject({ kind: 'error', code: 'response_cut', mayHaveBeenSent: true, head: { status: 200 } });
  });

  it.each([
    ['nothing', ''],
    ['half a header', 'HTTP/1.1 200 OK\r\nContent-Le'],
    ['something that is not HTTP', 'SSH-2.0-OpenSSH_9.2\r\n'],
    ['an upgrade nobody asked for', 'HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n'],
    ['both a length and chunks', 'HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n'],
  ])('%s is a fault of the network after sending', async (_, bytes) => {
    expect(await ask(await answerBytes(bytes))).toMatchObject({ kind: 'error', code: 'network', mayHaveBeenSent: true, head: null });
  });

  const reset = (socket: Socket) => socket.resetAndDestroy();

  it('a reset before the answer may have been sent; a reset inside the body is a cut answer', async () => {
    const before = await openTcpTarget((socket) => socket.once('data', () => reset(socket)));
    expect(await ask(before)).toMatchObject({ kind: 'error', code: 'network', mayHaveBeenSent: true });
    const inside = await openTcpTarget((socket) => {
      socket.once('data', () => socket.write('HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nshort', () => reset(socket)));
    });
    expect(await ask(inside)).toMatchObject({ kind: 'error', mayHaveBeenSent: true });
  });

  it('a POST on a kept connection that the server resets is sent once and not again', async () => {
    let requests = 0;
    const target = await openTcpTarget((socket) => {
      socket.on('data', () => {
        requests++;
        if (requests === 1) socket.write('HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok');
        else reset(socket);
      });
    });
    expect(await ask(target, { method: 'POST', body: 'a' })).toMatchObject({ kind: 'response' });
    expect(await ask(target, { method: 'POST', body: 'b' })).toMatchObject({ kind: 'error', code: 'network', mayHaveBeenSent: true });
    expect(await ask(target, { method: 'GET' })).toMatchObject({ kind: 'error', code: 'network', mayHaveBeenSent: true });
    expect(requests).toBe(3);
  });

  it('a refused connection, a name without address and a TLS failure send nothing', async () => {
    const gone = await openHttpTarget(() => undefined);
    await gone.close();
    expect(await ask(gone)).toMatchObject({ kind: 'error', code: 'network', mayHaveBeenSent: false });
    const unknown = await sendRequest(get('http://nowhere.example.test/'), {
      allow: allow(),
      lookup: (_, __, callback) => callback(Object.assign(new Error('x'), { code: 'ENOTFOUND' }), '', 0),
    });
    expect(unknown).toMatchObject({ kind: 'error', code: 'network', mayHaveBeenSent: false });
    const plain = await answerBytes('HTTP/1.1 400 Bad Request\r\n\r\n');
    open.add(plain);
    expect(await sendRequest(get(`https://127.0.0.1:${plain.port}/`), { allow: allow(plain) })).toMatchObject({
      kind: 'error',
      code: 'network',
      mayHaveBeenSent: false,
    });
  });
});

describe('whole answers', () => {
  it.each([204, 304])('a %i has an empty body whatever it announces', async (status) => {
    const target = await openTcpTarget((socket) => {
      socket.once('data', () => socket.end(`HTTP/1.1 ${status} X\r\nContent-Type: application/json\r\nContent-Encoding: gzip\r\n\r\n`));
    });
    expect(await ask(target)).toMatchObject({ kind: 'response', status, wireBytes: 0, undecoded: null });
  });

  it('a HEAD has an empty body although a length is announced, also one over the cap', async () => {
    const target = await openHttpTarget((_, response) => response.writeHead(200, { 'content-length': '5000000' }).end());
    const result = await ask(target, { method: 'HEAD' });
    expect(result).toMatchObject({ kind: 'response', status: 200, wireBytes: 0, headers: { 'content-length': '5000000' } });
    expect(bodyText(result)).toBe('');
  });

  it('passes over interim answers', async () => {
    const target = await answerBytes('HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok');
    const result = await ask(target);
    expect(bodyText(result)).toBe('ok');
    expect(result).toMatchObject({ status: 200, headers: { 'content-length': '2' } });
  });

  it('gives headers in lower case, joined, and one by one', async () => {
    const target = await answerBytes('HTTP/1.1 200 OK\r\nX-A: 1\r\nx-a: 2\r\nSet-Cookie: a=1\r\nSet-Cookie: b=2\r\n__proto__: p\r\nContent-Length: 0\r\n\r\n');
    const result = await ask(target);
    if (result.kind !== 'response') throw new Error(result.message);
    expect(result.headers['x-a']).toBe('1, 2');
    expect(Object.hasOwn(result.headers, '__proto__')).toBe(true);
    expect(result.rawHeaders.filter(([name]) => name === 'set-cookie')).toEqual([
      ['set-cookie', 'a=1'],
      ['set-cookie', 'b=2'],
    ]);
  });

  it('keeps a connection for the next request to the same origin', async () => {
    const target = await openHttpTarget((_, response) => response.end('ok'));
    for (let i = 0; i < 20; i++) expect(await ask(target)).toMatchObject({ kind: 'response' });
    // A connection is free again one turn of the event loop after its answer, so a second one may be opened meanwhile.
    expect(target.connections()).toBeLessThanOrEqual(3);
  });
});
