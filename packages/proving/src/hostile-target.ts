/**
 * A system that Onward calls, and an independent witness of every call: it writes each request to a file of its own, synced to the disk,
 * before it answers in any way, and then behaves as it is told: well, or in one of the ways real systems misbehave.
 * Loopback only.
 */
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { closeSync, fdatasyncSync, openSync, readFileSync, writeSync } from 'node:fs';
import { createServer, type ServerResponse } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import { gzipSync } from 'node:zlib';

export const BEHAVIOURS = {
  plain: 'answers 200',
  gzip: 'answers 200 with a compressed body',
  empty: 'answers 204',
  hang: 'never answers',
  drip: 'begins to answer and goes on a byte at a time, for ever',
  reset_before: 'resets the connection without an answer',
  reset_after: 'resets the connection inside the body',
  long: 'promises more bytes than it sends, and closes',
  status_429: 'answers 429 with Retry-After: 2',
  status_503: 'answers 503',
  status_500: 'answers 500 with a page',
  status_404: 'answers 404',
} as const;
export type Behaviour = keyof typeof BEHAVIOURS;

/** A line of the witness: `nth` counts the requests under this key, from 1. */
export type Witnessed = { key: string; hash: string; nth: number; behaviour: Behaviour };

export type HostileTarget = {
  url: string;
  port: number;
  /** What was written down, read back from the disk. */
  witnessed(): Witnessed[];
  stop(): Promise<void>;
};

/** `behave` is asked once for each request, with its key and how many there were under it, this one included. */
export async function startHostileTarget(file: string, behave: (key: string, nth: number) => Behaviour): Promise<HostileTarget> {
  const witness = openSync(file, 'a+');
  const counts = new Map<string, number>();
  const sockets = new Set<Socket>();
  const server = createServer((request, response) => {
    const hash = createHash('sha256');
    request.on('data', (chunk: Buffer) => hash.update(chunk));
    request.on('error', () => undefined);
    response.on('error', () => undefined);
    request.once('end', () => {
      const key = String(request.headers['idempotency-key'] ?? '');
      const nth = (counts.get(key) ?? 0) + 1;
      counts.set(key, nth);
      const behaviour = behave(key, nth);
      writeSync(witness, `${JSON.stringify({ key, hash: hash.digest('hex'), nth, behaviour } satisfies Witnessed)}\n`);
      fdatasyncSync(witness);
      answer(response, behaviour);
    });
  });
  server.on('connection', (socket: Socket) => {
    sockets.add(socket);
    socket.once('close', () => sockets.delete(socket)).on('error', () => undefined);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}`,
    port,
    witnessed: () =>
      readFileSync(file, 'utf8')
        .split('\n')
        .flatMap((line) => (line === '' ? [] : [JSON.parse(line) as Witnessed])),
    async stop() {
      for (const socket of sockets) socket.destroy();
      await new Promise<void>((resolve) => server.close(() => resolve()));
      closeSync(witness);
    },
  };
}

function answer(response: ServerResponse, behaviour: Behaviour): void {
  const json = JSON.stringify({ ok: true });
  switch (behaviour) {
    case 'plain':
      return void response.writeHead(200, { 'content-type': 'application/json' }).end(json);
    case 'gzip':
      return void response.writeHead(200, { 'content-type': 'application/json', 'content-encoding': 'gzip' }).end(gzipSync(json));
    case 'empty':
      return void response.writeHead(204).end();
    case 'hang':
      return;
    case 'drip': {
      response.writeHead(200, { 'content-type': 'text/plain' }).flushHeaders();
      const timer = setInterval(() => response.write('.'), 100);
      response.once('close', () => clearInterval(timer));
      return;
    }
    case 'reset_before':
      return void response.socket?.resetAndDestroy();
    case 'reset_after':
      response.writeHead(200, { 'content-type': 'application/json', 'content-length': 1_000 });
      response.write('{"ok":', () => response.socket?.resetAndDestroy());
      return;
    case 'long':
      response.writeHead(200, { 'content-type': 'application/json', 'content-length': 1_000 });
      response.write(json, () => response.socket?.destroySoon());
      return;
    case 'status_429':
      return void response.writeHead(429, { 'retry-after': '2' }).end();
    case 'status_503':
      return void response.writeHead(503).end();
    case 'status_500':
      return void response.writeHead(500, { 'content-type': 'text/html' }).end('<h1>Oops</h1>');
    case 'status_404':
      return void response.writeHead(404).end();
    default:
      return behaviour satisfies never;
  }
}
