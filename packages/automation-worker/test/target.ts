/** A system that receives requests: it answers when the test says so. */
import { once } from 'node:events';
import { createServer, type ServerResponse } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import type { OutboundRequest } from '@onward/contracts/outbound';
import type { TargetLimits } from '@onward/contracts/targets';
import { type AllowList, parseAllowList } from '@onward/egress/allow-list';

export type Received = { body: string; response: ServerResponse; closed: Promise<unknown> };
export type Target = {
  /** Written as EGRESS_ALLOW has it. */
  allowed: string;
  allow: AllowList;
  connections(): number;
  received: Received[];
  /** The nth request, past or to come, counted from 1. */
  nth(n: number): Promise<Received>;
  request: OutboundRequest;
  limits: TargetLimits;
  close(): Promise<void>;
};

/** Answers at once: with 200, or as `answer` does; with `answersAtOnce: false` the test answers by `received[n].response`. */
export async function startTarget({
  answersAtOnce = true,
  answer = (response) => void response.writeHead(200, { 'content-type': 'application/json' }).end('{"ok":true}'),
}: {
  answersAtOnce?: boolean;
  answer?: (response: ServerResponse, nth: number) => void;
} = {}): Promise<Target> {
  const sockets = new Set<Socket>();
  const waiting: { n: number; resolve: (one: Received) => void }[] = [];
  let connections = 0;
  const received: Received[] = [];
  const server = createServer((request, response) => {
    let body = '';
    request.on('data', (chunk: Buffer) => (body += chunk.toString()));
    request.on('end', () => {
      const one = { body, response, closed: once(response, 'close') };
      received.push(one);
      for (const { n, resolve } of waiting) if (n === received.length) resolve(one);
      if (answersAtOnce) answer(response, received.length);
    });
  });
  server.on('connection', (socket: Socket) => {
    connections += 1;
    sockets.add(socket.on('error', () => undefined));
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  const allowed = `127.0.0.1:${port}`;
  const list = parseAllowList(allowed);
  if (!list.ok) throw new Error(list.errors.join());
  return {
    allowed,
    allow: list.allow,
    connections: () => connections,
    received,
    nth: (n) =>
      new Promise((resolve) => {
        const one = received[n - 1];
        if (one) resolve(one);
        else waiting.push({ n, resolve });
      }),
    request: {
      method: 'POST',
      url: `http://127.0.0.1:${port}/hook`,
      headers: { 'Content-Type': 'application/json' },
      body: '{"order":7}',
      timeoutMs: 60_000,
      maxResponseBytes: 100_000,
      followRedirects: false,
    },
    limits: { origin: `http://127.0.0.1:${port}`, ratePerSecond: null, maxConcurrent: null, breakerNo: 0 },
    close: async () => {
      for (const socket of sockets) socket.destroy();
      server.close();
      await once(server, 'close');
    },
  };
}
