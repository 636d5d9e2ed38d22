/** A system that workflows call, on loopback in this process: notes when each path was first called, and answers so many bytes after so long. */
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout as pause } from 'node:timers/promises';
import { endLater } from './started.js';

export type TargetServer = {
  /** `host:port`. */
  host: string;
  /** When a path was first called, by `performance.now()`. */
  firstCalls: ReadonlyMap<string, number>;
  close(): Promise<void>;
};

export async function startTarget({ delayMs = 0, answerBytes = 20 } = {}): Promise<TargetServer> {
  const firstCalls = new Map<string, number>();
  const answer = JSON.stringify({ ok: true, text: 'x'.repeat(Math.max(0, answerBytes - 20)) });
  const headers = { 'content-type': 'application/json', 'content-length': Buffer.byteLength(answer) };
  const server = createServer((request, response) => {
    const path = request.url ?? '/';
    if (!firstCalls.has(path)) firstCalls.set(path, performance.now());
    request.resume();
    if (delayMs === 0) response.writeHead(200, headers).end(answer);
    else void pause(delayMs).then(() => response.writeHead(200, headers).end(answer));
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    host: `127.0.0.1:${(server.address() as AddressInfo).port}`,
    firstCalls,
    close: endLater(async () => {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    }),
  };
}
