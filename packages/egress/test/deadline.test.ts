import type { Socket } from 'node:net';
import { afterAll, describe, expect, it } from 'vitest';
import { closeEgress, sendRequest } from '../src/send-request.js';
import { allow, answerNames, get, openHttpTarget, openTcpTarget } from './local-target.js';

afterAll(closeEgress);

const TIMEOUT_MS = 1_000;
/** A hang guard, five times the deadline. */
const MUST_END_BY_MS = 5 * TIMEOUT_MS;

/** Writes one piece every 100 ms for as long as the socket lives. */
function drip(socket: Socket, piece: (turn: number) => string) {
  let turn = 0;
  const timer = setInterval(() => socket.write(piece(turn++)), 100);
  socket.on('close', () => clearInterval(timer));
}

const SLOW = {
  'accepts and never answers': () => undefined,
  'sends its headers at once and then a byte at a time': (socket) => {
    socket.write('HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n');
    drip(socket, () => 'x');
  },
  'sends chunks a byte at a time': (socket) => {
    socket.write('HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n');
    drip(socket, () => '1\r\nx\r\n');
  },
  'sends a header line at a time': (socket) => {
    socket.write('HTTP/1.1 200 OK\r\n');
    drip(socket, (turn) => `X-${turn}: y\r\n`);
  },
  'sends interim answers for ever': (socket) => drip(socket, () => 'HTTP/1.1 103 Early Hints\r\n\r\n'),
} as const satisfies Record<string, (socket: Socket) => void>;

describe('F38: slow drip', () => {
  it.each(Object.keys(SLOW) as (keyof typeof SLOW)[])('F38: a server that %s is a time-out, and its socket is closed', async (name) => {
    const target = await openTcpTarget((socket) => {
      socket.once('data', () => SLOW[name](socket));
    });
    const startedAt = performance.now();
    const result = await sendRequest(get(target.origin, { timeoutMs: TIMEOUT_MS }), { allow: allow(target) });
    const tookMs = performance.now() - startedAt;
    expect(result).toMatchObject({ kind: 'error', code: 'timeout', mayHaveBeenSent: true });
    expect(tookMs).toBeGreaterThan(TIMEOUT_MS - 20);
    expect(tookMs).toBeLessThan(MUST_END_BY_MS);
    await target.allSocketsClosed();
    await target.close();
  });

  it('F38: a body that is complete by its length succeeds although the server never closes', async () => {
    const target = await openTcpTarget((socket) => {
      socket.once('data', () => socket.write('HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nfull'));
    });
    const result = await sendRequest(get(target.origin, { timeoutMs: TIMEOUT_MS }), { allow: allow(target) });
    expect(result.kind === 'response' && Buffer.from(result.body).toString()).toBe('full');
    await target.close();
  });

  it('F38: fifty hung requests leave no open socket and do not hold up another target', async () => {
    const hung = await openTcpTarget((socket) => {
      socket.on('data', () => undefined);
    });
    const well = await openHttpTarget((_, response) => response.end('ok'));
    const options = { allow: allow(hung, well) };
    const fifty = Array.from({ length: 50 }, () => sendRequest(get(hung.origin, { timeoutMs: TIMEOUT_MS }), options));
    const other = await sendRequest(get(well.origin, { timeoutMs: TIMEOUT_MS }), options);
    expect(other).toMatchObject({ kind: 'response', status: 200 });
    const results = await Promise.all(fifty);
    expect(results.map((result) => result.kind === 'error' && result.code)).toEqual(Array.from({ length: 50 }, () => 'timeout'));
    expect(hung.connections()).toBe(50);
    await hung.allSocketsClosed();
    await Promise.all([hung.close(), well.close()]);
  });

  it('F38: the deadline holds over redirects together', async () => {
    const target = await openTcpTarget((socket) => {
      socket.on('data', () => {
        setTimeout(() => socket.write('HTTP/1.1 302 Found\r\nLocation: /again\r\nContent-Length: 0\r\n\r\n'), 400);
      });
    });
    const startedAt = performance.now();
    const result = await sendRequest(get(target.origin, { timeoutMs: TIMEOUT_MS, followRedirects: true }), { allow: allow(target) });
    expect(result).toMatchObject({ kind: 'error', code: 'timeout', mayHaveBeenSent: true });
    expect(performance.now() - startedAt).toBeLessThan(MUST_END_BY_MS);
    await target.close();
  });
});

describe('the other ways to stop', () => {
  it('a TLS handshake that never comes is a time-out with nothing sent, and its socket is closed', async () => {
    const target = await openTcpTarget((socket) => {
      socket.on('data', () => undefined);
    });
    const startedAt = performance.now();
    const result = await sendRequest(get(`https://127.0.0.1:${target.port}/`, { connectTimeoutMs: 300 }), { allow: allow(target) });
    expect(result).toMatchObject({ kind: 'error', code: 'timeout', mayHaveBeenSent: false });
    await target.allSocketsClosed();
    expect(performance.now() - startedAt).toBeLessThan(MUST_END_BY_MS);
    await target.close();
  });

  it('a name server that never answers is a time-out with nothing sent', async () => {
    const result = await sendRequest(get('http://slow.example.test/', { timeoutMs: 200 }), { allow: allow(), lookup: () => undefined });
    expect(result).toMatchObject({ kind: 'error', code: 'timeout', mayHaveBeenSent: false });
  });

  it('headers that do not come in their own time are a time-out', async () => {
    const target = await openTcpTarget((socket) => drip(socket, () => ''));
    const result = await sendRequest(get(target.origin, { headersTimeoutMs: 200 }), { allow: allow(target) });
    expect(result).toMatchObject({ kind: 'error', code: 'timeout', mayHaveBeenSent: true });
    await target.close();
  });

  it('a signal that is already set stops the request before anything is dialled', async () => {
    const target = await openHttpTarget((_, response) => response.end());
    const result = await sendRequest(get(target.origin), { allow: allow(target), signals: [AbortSignal.abort()] });
    expect(result).toMatchObject({ kind: 'error', code: 'aborted', mayHaveBeenSent: false });
    expect(target.connections()).toBe(0);
    await target.close();
  });

  it('a signal during the name lookup stops the request with nothing sent', async () => {
    const stop = new AbortController();
    const { lookup } = answerNames({});
    const result = await sendRequest(get('http://slow.example.test/'), {
      allow: allow(),
      signals: [stop.signal],
      lookup: (name, options, callback) => {
        stop.abort();
        lookup(name, options, callback);
      },
    });
    expect(result).toMatchObject({ kind: 'error', code: 'aborted', mayHaveBeenSent: false });
  });

  it('a signal after the request has left says that it may have been sent, and closes the socket', async () => {
    const stop = new AbortController();
    const target = await openTcpTarget((socket) => {
      socket.once('data', () => stop.abort());
    });
    const result = await sendRequest(get(target.origin), { allow: allow(target), signals: [stop.signal] });
    expect(result).toMatchObject({ kind: 'error', code: 'aborted', mayHaveBeenSent: true });
    await target.allSocketsClosed();
    await target.close();
  });

  it('closing ends a request under way, and the next one starts afresh', async () => {
    const target = await openHttpTarget((seen, response) => {
      if (seen.url === '/hang') void closeEgress();
      else response.end('ok');
    });
    expect(await sendRequest(get(`${target.origin}/hang`), { allow: allow(target) })).toMatchObject({ kind: 'error', code: 'aborted', mayHaveBeenSent: true });
    expect(await sendRequest(get(target.origin), { allow: allow(target) })).toMatchObject({ kind: 'response', status: 200 });
    await target.close();
  });
});
