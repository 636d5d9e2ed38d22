/** Real servers on 127.0.0.1 that remember what reached them. Each is closed by the test file that opened it. */
import { createServer, type IncomingMessage, type RequestListener, type ServerResponse } from 'node:http';
import { type AddressInfo, createServer as createTcpServer, type LookupFunction, type Server, type Socket } from 'node:net';
import { text } from 'node:stream/consumers';
import { type AllowList, parseAllowList } from '../src/allow-list.js';
import type { SendRequest } from '../src/send-request.js';

export type Seen = { method: string; url: string; headers: IncomingMessage['headers']; body: string };

export type LocalTarget = {
  readonly port: number;
  readonly origin: string;
  /** Requests read to their end, in order. */
  readonly seen: Seen[];
  readonly sockets: ReadonlySet<Socket>;
  connections(): number;
  /** Resolves once no connection is open; at once when none is. */
  allSocketsClosed(): Promise<void>;
  close(): Promise<void>;
};

type Tracked = Omit<LocalTarget, 'seen'>;

/** An HTTP server that reads each request whole, keeps it and lets `answer` reply. */
export async function openHttpTarget(answer: (seen: Seen, response: ServerResponse, request: IncomingMessage) => void): Promise<LocalTarget> {
  const seen: Seen[] = [];
  const listener: RequestListener = (request, response) => {
    text(request).then(
      (body) => {
        const one = { method: request.method ?? '', url: request.url ?? '', headers: request.headers, body };
        seen.push(one);
        answer(one, response, request);
      },
      () => undefined, // the client went away inside its body
    );
  };
  return { ...(await track(createServer(listener))), seen };
}

/** A bare TCP server. */
export async function openTcpTarget(onSocket: (socket: Socket) => void): Promise<LocalTarget> {
  return { ...(await track(createTcpServer(onSocket))), seen: [] };
}

async function track(server: Server): Promise<Tracked> {
  const sockets = new Set<Socket>();
  let connections = 0;
  let onEmpty: (() => void)[] = [];
  server.on('connection', (socket: Socket) => {
    connections++;
    sockets.add(socket);
    socket.on('error', () => undefined);
    socket.on('close', () => {
      sockets.delete(socket);
      if (sockets.size > 0) return;
      for (const resolve of onEmpty) resolve();
      onEmpty = [];
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  return {
    port,
    origin: `http://127.0.0.1:${port}`,
    sockets,
    connections: () => connections,
    allSocketsClosed: () => (sockets.size === 0 ? Promise.resolve() : new Promise((resolve) => onEmpty.push(resolve))),
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        for (const socket of sockets) socket.destroy();
      }),
  };
}

export function allow(...entries: (string | LocalTarget)[]): AllowList {
  const result = parseAllowList(entries.map((entry) => (typeof entry === 'string' ? entry : `127.0.0.1:${entry.port}`)).join(','));
  if (!result.ok) throw new Error(result.errors.join('; '));
  return result.allow;
}

export function get(url: string, changes: Partial<SendRequest> = {}): SendRequest {
  return { method: 'GET', url, headers: {}, body: null, timeoutMs: 10_000, maxResponseBytes: 100_000, followRedirects: false, ...changes };
}

/** A name server of our own: name → the addresses of each call in turn, the last one for good. */
export function answerNames(names: Readonly<Record<string, readonly (readonly string[])[]>>): { lookup: LookupFunction; calls: string[] } {
  const calls: string[] = [];
  const lookup: LookupFunction = (name, _options, callback) => {
    const hostname = name.replace(/\.$/, '');
    const answers = names[hostname];
    const turn = calls.filter((called) => called === hostname).length;
    calls.push(hostname);
    const addresses = answers?.[Math.min(turn, answers.length - 1)];
    if (addresses === undefined) return process.nextTick(callback, Object.assign(new Error('not found'), { code: 'ENOTFOUND' }), '', 0);
    process.nextTick(
      callback,
      null,
      addresses.map((address) => ({ address, family: address.includes(':') ? 6 : 4 })),
    );
  };
  return { lookup, calls };
}
