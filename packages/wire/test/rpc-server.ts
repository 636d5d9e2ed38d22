/**
 * A backend as small as can be: real TCP, the real codec, the real check of the signature. What it answers is the test's business.
 */
import { once } from 'node:events';
import { type AddressInfo, type Socket, createServer } from 'node:net';
import { MessageReader, encodeMessage, parseJson } from '../src/codec.js';
import { NonceMemory } from '../src/nonce-memory.js';
import { type Answer, readPacket, verify } from '../src/signing.js';

export const SECRET = 'a secret of thirty-two characters';

export interface Call {
  id: string;
  pattern: string;
  data: unknown;
  socket: Socket;
  /** How many connections there were before this one. */
  connection: number;
  answer(answer: { reply: unknown } | { error: { code: string; detail: string } }): void;
}

export interface RpcServer {
  port: number;
  connections: number;
  /** Chunks that arrived, in order. */
  chunks: Buffer[];
  close(): Promise<void>;
}

export async function startRpcServer(handle: (call: Call) => void, { port = 0, secret = SECRET }: { port?: number; secret?: string } = {}): Promise<RpcServer> {
  const sockets = new Set<Socket>();
  const nonces = new NonceMemory();
  const server = createServer((socket) => {
    const connection = running.connections++;
    const reader = new MessageReader();
    sockets.add(socket);
    socket.on('close', () => sockets.delete(socket));
    socket.on('error', () => undefined);
    socket.on('data', (chunk: Buffer) => {
      running.chunks.push(chunk);
      for (const message of reader.push(chunk)) {
        const packet = readPacket(message);
        if (!packet) return void socket.destroy();
        const send = (answer: Answer | object) => void socket.write(encodeMessage(answer));
        if (verify(packet, { secrets: [secret], now: Date.now(), nonces }) !== 'ok')
          return send({ id: packet.id, error: { code: 'unauthenticated', detail: '' } });
        handle({
          id: packet.id,
          pattern: packet.pattern,
          data: parseJson(packet.body),
          socket,
          connection,
          answer: (answer) => send({ id: packet.id, ...answer }),
        });
      }
    });
  });
  const running: RpcServer = {
    port: 0,
    connections: 0,
    chunks: [],
    close: async () => {
      for (const socket of sockets) socket.destroy();
      server.close();
      await once(server, 'close');
    },
  };
  server.listen(port, '127.0.0.1');
  await once(server, 'listening');
  running.port = (server.address() as AddressInfo).port;
  return running;
}
