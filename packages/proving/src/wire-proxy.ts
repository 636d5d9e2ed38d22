/**
 * Stands between the workers and gateway of an installation and its backend, reads every message on the way, and does to a request, or to
 * its answer, what it is told to. All else goes through as it is. Loopback only.
 */
import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { encodeMessage, MessageReader } from '@onward/wire/codec';
import { type Answer, encodePacket, type Packet, readAnswer, readPacket, sign } from '@onward/wire/signing';

export const WIRE_FAULTS = {
  'lose the request': 'the connection is cut before the backend has seen the request; whatever else is on its way is cut with it',
  'lose the reply': 'the connection is cut when the backend has answered',
  'repeat the request': 'the same bytes reach the backend twice',
  'repeat the request signed anew': 'the same call reaches the backend twice at once, each signed for itself',
  'repeat the reply': 'the client is answered twice',
  'stall requests': 'nothing that anybody sends reaches the backend for a time, then all of it in order',
  'stall replies': 'no answer of the backend reaches anybody for a time, then all of them in order',
} as const;
export type WireFault = keyof typeof WIRE_FAULTS;

export type WireProxyPlan = {
  /** Where the backend listens for workers. */
  toPort: number;
  /** What a request is signed anew with. */
  secret: string;
  stallMs: number;
  /** Asked of every request: what is to be done to it. */
  strike(request: Packet): WireFault | undefined;
};

export type WireProxy = { port: number; stop(): Promise<void> };

type Direction = 'requests' | 'replies';

export async function startWireProxy({ toPort, secret, stallMs, strike }: WireProxyPlan): Promise<WireProxy> {
  const sockets = new Set<Socket>();
  /** What waits for the end of a stall, in order. */
  const held: Partial<Record<Direction, (() => void)[]>> = {};

  const stall = (direction: Direction): void => {
    if (held[direction]) return;
    held[direction] = [];
    setTimeout(() => {
      const waiting = held[direction] ?? [];
      delete held[direction];
      for (const write of waiting) write();
    }, stallMs).unref();
  };
  const pass = (direction: Direction, socket: Socket, bytes: Buffer): void => {
    const write = (): void => {
      if (!socket.destroyed) socket.write(bytes);
    };
    if (held[direction]) held[direction].push(write);
    else write();
  };

  const server = createServer({ noDelay: true }, (near) => {
    const far = connect({ host: '127.0.0.1', port: toPort, noDelay: true });
    /** What to do with the answer to a request that was struck. */
    const awaited = new Map<string, (answer: Answer) => void>();
    const give = (answer: Answer): void => pass('replies', near, encodeMessage(answer));
    const forward = (packet: Packet): void => pass('requests', far, encodePacket(packet));

    const onRequest = (message: unknown): void => {
      const packet = readPacket(message);
      if (!packet) throw new Error('A client sent something that is no request');
      const fault = strike(packet);
      switch (fault) {
        case undefined:
          return forward(packet);
        case 'lose the request':
          return void near.destroy();
        case 'lose the reply':
          awaited.set(packet.id, () => near.destroy());
          return forward(packet);
        case 'repeat the reply':
          awaited.set(packet.id, (answer) => {
            give(answer);
            give(answer);
          });
          return forward(packet);
        case 'repeat the request':
          awaited.set(packet.id, (first) => {
            // The copy is turned away at once, while the call itself is still being carried out: its answer is the other one.
            if (!isTurnedAway(first)) give(first);
            awaited.set(packet.id, (second) => {
              if (isTurnedAway(first)) give(second);
            });
          });
          forward(packet);
          return forward(packet);
        case 'repeat the request signed anew': {
          const copy = sign({ secret, pattern: packet.pattern, body: packet.body, id: `${packet.id}-again` }, Date.now());
          awaited.set(copy.id, () => undefined);
          forward(packet);
          return forward(copy);
        }
        case 'stall requests':
          stall('requests');
          return forward(packet);
        case 'stall replies':
          stall('replies');
          return forward(packet);
        default:
          return fault satisfies never;
      }
    };
    const onAnswer = (message: unknown): void => {
      const answer = readAnswer(message);
      if (!answer) throw new Error('The backend sent something that is no answer');
      const take = awaited.get(answer.id);
      awaited.delete(answer.id);
      if (take) take(answer);
      else give(answer);
    };

    for (const [socket, other, take] of [
      [near, far, onRequest],
      [far, near, onAnswer],
    ] as const) {
      const reader = new MessageReader();
      sockets.add(socket);
      socket.on('data', (bytes: Buffer) => {
        for (const message of reader.push(bytes)) take(message);
      });
      socket.on('error', () => undefined);
      socket.on('close', () => {
        sockets.delete(socket);
        other.destroy();
      });
    }
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    port: (server.address() as AddressInfo).port,
    async stop() {
      for (const socket of sockets) socket.destroy();
      server.close();
      await once(server, 'close');
    },
  };
}

function isTurnedAway(answer: Answer): boolean {
  return 'error' in answer && answer.error.code === 'unauthenticated';
}
