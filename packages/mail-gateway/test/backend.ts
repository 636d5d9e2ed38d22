/**
 * The backend's two mail calls on real TCP, with the real codec and the real check of the signature. What it answers is the
 * test's business; what it was asked is kept.
 */
import { once } from 'node:events';
import { type AddressInfo, type Socket, createServer } from 'node:net';
import type { ErrorCode } from '@onward/contracts/errors';
import type { MessageResult } from '@onward/contracts/mail';
import type { MailJob } from '@onward/contracts/queues';
import { MessageReader, encodeMessage, parseJson } from '@onward/wire/codec';
import { NonceMemory } from '@onward/wire/nonce-memory';
import { readPacket, verify } from '@onward/wire/signing';

export const SECRET = 'a secret of thirty-two characters';

/** An answer, or what happens instead of one. */
export type Doing = { reply: object } | { error: { code: ErrorCode; detail: string } } | 'cut' | 'silent';

export interface Backend {
  host: string;
  port: number;
  secret: string;
  begun: MailJob[];
  /** The callId of each `begin`. */
  callIds: string[];
  ended: MessageResult[];
  /** Resolves when `end` has been asked (again). */
  nextEnd(): Promise<MessageResult>;
  close(): Promise<void>;
}

export interface Script {
  begin(ref: MailJob, nth: number): Doing;
  /** Stored unless the script says otherwise. */
  end?(result: MessageResult, nth: number): Doing;
}

export async function startBackend({ begin, end = () => ({ reply: { kind: 'stored' } }) }: Script, { port = 0 }: { port?: number } = {}): Promise<Backend> {
  const sockets = new Set<Socket>();
  const nonces = new NonceMemory();
  const waiting: ((result: MessageResult) => void)[] = [];

  const decide = (pattern: string, data: unknown): Doing => {
    if (pattern === 'mail.message.begin') {
      const { callId, ...job } = data as MailJob & { callId: string };
      backend.begun.push(job);
      backend.callIds.push(callId);
      return begin(job, backend.begun.length);
    }
    const result = data as MessageResult;
    backend.ended.push(result);
    for (const resolve of waiting.splice(0)) resolve(result);
    return end(result, backend.ended.length);
  };

  const server = createServer((socket) => {
    const reader = new MessageReader();
    sockets.add(socket);
    socket.on('close', () => sockets.delete(socket));
    socket.on('error', () => undefined);
    socket.on('data', (chunk: Buffer) => {
      for (const message of reader.push(chunk)) {
        const packet = readPacket(message);
        if (!packet || verify(packet, { secrets: [SECRET], now: Date.now(), nonces }) !== 'ok') return void socket.destroy();
        const doing = decide(packet.pattern, parseJson(packet.body));
        if (doing === 'cut') socket.destroy();
        else if (doing !== 'silent') socket.write(encodeMessage({ id: packet.id, ...doing }));
      }
    });
  });

  const backend: Backend = {
    host: '127.0.0.1',
    port: 0,
    secret: SECRET,
    begun: [],
    callIds: [],
    ended: [],
    nextEnd: () => new Promise((resolve) => waiting.push(resolve)),
    close: async () => {
      for (const socket of sockets) socket.destroy();
      server.close();
      await once(server, 'close');
    },
  };
  server.listen(port, '127.0.0.1');
  await once(server, 'listening');
  backend.port = (server.address() as AddressInfo).port;
  return backend;
}
