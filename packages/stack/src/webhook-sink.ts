/**
 * An HTTP server that stands for the systems Onward calls: it records every request, byte for byte, and answers as told.
 *
 * Paths that begin with /_ are its own (the page, the records as JSON, the mode); everything else, whatever the method,
 * is recorded from the moment its headers are here. It can misbehave in the ways targets do (see WebhookSinkMode).
 * Loopback only.
 */
import { once, setMaxListeners } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout as pause } from 'node:timers/promises';
import { freePort } from './free-port.js';
import type { Link } from './page.js';
import { createWatchedList } from './watched-list.js';
import { answerSinkRequest } from './webhook-page.js';
import type { SinkAnswer, SinkRequest, WebhookSinkMode, WebhookSinkRule } from './webhook-sink-mode.js';

export type { SinkRequest, WebhookSinkMode, WebhookSinkRule } from './webhook-sink-mode.js';

export type WebhookSink = {
  /** Where requests are sent to; any path below it. */
  readonly url: string;
  readonly port: number;
  /** The page for people. */
  readonly pageUrl: string;
  requests(): readonly SinkRequest[];
  /** Resolves with all requests once the predicate holds of them; throws after `timeoutMs` (default 10 s). */
  waitFor(predicate: (requests: readonly SinkRequest[]) => boolean, timeoutMs?: number): Promise<readonly SinkRequest[]>;
  mode(next: WebhookSinkMode | WebhookSinkRule): void;
  clear(): void;
  /** How many connections are open now. */
  countConnections(): Promise<number>;
  stop(): Promise<void>;
};

export type WebhookSinkOptions = { readonly port?: number; readonly links?: readonly Link[] };

type Arriving = SinkRequest & { isComplete: boolean; answer: SinkAnswer | undefined };
const HOST = '127.0.0.1';

/** Starts it on the wanted port, or the next free one. */
export async function startWebhookSink({ port, links = [] }: WebhookSinkOptions = {}): Promise<WebhookSink> {
  const list = createWatchedList<SinkRequest>([], 'requests');
  const stopping = new AbortController();
  setMaxListeners(0, stopping.signal); // one for each answer that is late or hangs
  let rule: WebhookSinkRule = () => ({ kind: 'ok' });
  let current: WebhookSinkMode | undefined = { kind: 'ok' };
  const mode = (next: WebhookSinkMode | WebhookSinkRule): void => {
    current = typeof next === 'function' ? undefined : next;
    rule = typeof next === 'function' ? next : () => next;
  };

  const server = createServer((request, response) => {
    if (request.url?.startsWith('/_') === true) {
      answerSinkRequest(request, response, { list, links, mode, currentMode: () => current }).catch(() => response.destroy());
      return;
    }
    const chunks: Buffer[] = [];
    const arriving = describe(request, chunks);
    list.add(arriving);
    const decided = rule(arriving, list.all().length);
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('error', () => {}); // the sender went away; what arrived stays recorded
    response.on('error', () => {});
    const noteAnswer = (): void => {
      const { headersSent, statusCode, writableFinished } = response;
      arriving.answer = headersSent ? { kind: 'status', status: statusCode, isWhole: writableFinished } : { kind: 'none' };
      list.touch();
    };
    response.once('close', noteAnswer); // comes after a whole answer as well
    request.once('end', () => {
      arriving.isComplete = true;
      list.touch();
      answerAs(decided, response, stopping.signal).catch(() => response.destroy());
    });
  });
  server.listen({ port: await freePort(port), host: HOST });
  await once(server, 'listening');
  const used = (server.address() as AddressInfo).port;
  const url = `http://${HOST}:${used}`;
  return {
    url,
    port: used,
    pageUrl: `${url}/_requests`,
    requests: () => list.all(),
    waitFor: (predicate, timeoutMs) => list.waitFor(predicate, timeoutMs),
    mode,
    clear: () => list.clear(),
    countConnections: () => new Promise((resolve, reject) => server.getConnections((error, count) => (error === null ? resolve(count) : reject(error)))),
    stop: async () => {
      stopping.abort();
      server.closeAllConnections();
      await new Promise<void>((resolve) => server.close(() => resolve()));
    },
  };
}

function describe({ method = 'GET', url = '/', headers, rawHeaders }: IncomingMessage, chunks: readonly Buffer[]): Arriving {
  const joined = Object.entries(headers).map(([name, value]) => [name, Array.isArray(value) ? value.join(', ') : (value ?? '')] as const);
  return {
    at: new Date().toISOString(),
    method,
    path: url,
    headers: Object.fromEntries(joined),
    rawHeaders: [...rawHeaders],
    get body() {
      return Buffer.concat(chunks);
    },
    isComplete: false,
    answer: undefined,
  };
}

async function answerAs(mode: WebhookSinkMode, response: ServerResponse, signal: AbortSignal): Promise<void> {
  switch (mode.kind) {
    case 'ok':
      return answerJson(response, 200, { ok: true });
    case 'fail':
      return answerJson(response, 500, { ok: false, error: 'the sink was told to fail' });
    case 'status':
      response.writeHead(mode.status, { ...mode.headers }).end(mode.body ?? '');
      return;
    case 'hang':
      return;
    case 'late':
      await pause(mode.delayMs, undefined, { signal });
      return answerJson(response, mode.status ?? 200, { ok: (mode.status ?? 200) < 300 });
    case 'drip':
      response.writeHead(200, { 'content-type': 'text/plain', 'content-length': mode.bytes }).flushHeaders();
      for (let sent = 0; sent < mode.bytes && !response.destroyed; sent++) {
        await pause(mode.intervalMs, undefined, { signal });
        response.write('.');
      }
      response.end();
      return;
    case 'reset':
      response.socket?.resetAndDestroy();
      return;
    case 'cut':
      response.writeHead(200, { 'content-type': 'application/json', 'content-length': 1_000 });
      response.write('{"ok":true,"then":"', () => response.socket?.destroySoon());
      return;
    default:
      return mode satisfies never;
  }
}

function answerJson(response: ServerResponse, status: number, body: unknown): void {
  response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body));
}
