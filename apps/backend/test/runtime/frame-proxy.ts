import { connect, createServer, type AddressInfo, type Server, type Socket } from 'node:net';
import { encodeMessage, MessageReader } from '@onward/wire/codec';
import { type Answer, type Packet, readAnswer, readPacket, sign } from '@onward/wire/signing';

/**
 * Stands between a client and the backend on the TCP of workers, reads every message (`<length>#<json>`) and does one thing to one chosen
 * request or to its answer; all else goes through as it is. It sits on the wire and knows nothing of what the messages mean.
 */
export type WireFault =
  /** The connection is cut before the backend has seen the request. */
  | 'lose the request'
  /** The connection is cut when the backend has answered. */
  | 'lose the reply'
  | 'repeat the reply'
  /** The request, or the answer, is kept back until `release`. */
  | 'hold the request'
  | 'hold the reply'
  /** The same bytes reach the backend twice. */
  | 'repeat the request'
  /** The same call reaches the backend twice at once, each signed for itself. */
  | 'repeat the request signed anew';

/** One request that met the fault. */
export type Struck = {
  readonly fault: WireFault;
  request: Packet | undefined;
  /** What the backend answered to it, to its copy, and to the client that sent it again after its answer was lost. */
  readonly answers: Answer[];
  /** Resolves when the message is lost, held back, or has been repeated and answered. */
  readonly happened: Promise<void>;
  release(): void;
};

type Striking = Struck & { happen(): void; readonly released: Promise<void> };
type Link = { client: Socket; upstream: Socket; answered: Map<string, (answer: Answer) => void> };

export class FrameProxy {
  private readonly server: Server;
  private readonly sockets = new Set<Socket>();
  private next: Striking | undefined;
  private lost: Striking | undefined;

  private constructor(private readonly backend: { port: number; secret: string }) {
    this.server = createServer({ noDelay: true }, (client) => this.serve(client));
  }

  /** `secret` is what a request is signed anew with. */
  static async open(backend: { port: number; secret: string }): Promise<FrameProxy> {
    const proxy = new FrameProxy(backend);
    await new Promise<void>((resolve) => proxy.server.listen(0, '127.0.0.1', resolve));
    return proxy;
  }

  get port(): number {
    return (this.server.address() as AddressInfo).port;
  }

  /** The next request that comes meets the fault. */
  strike(fault: WireFault): Struck {
    const [happened, happen] = latch();
    const [released, release] = latch();
    this.next = { fault, request: undefined, answers: [], happened, happen, released, release };
    return this.next;
  }

  async close(): Promise<void> {
    for (const socket of this.sockets) socket.destroy();
    await new Promise<void>((resolve) => this.server.close(() => resolve()));
  }

  private serve(client: Socket): void {
    const upstream = connect({ host: '127.0.0.1', port: this.backend.port, noDelay: true });
    const link: Link = { client, upstream, answered: new Map() };
    const pairs = [
      [client, upstream, (message: unknown) => this.onRequest(link, message)],
      [upstream, client, (message: unknown) => this.onAnswer(link, message)],
    ] as const;
    for (const [socket, other, take] of pairs) {
      const reader = new MessageReader();
      this.sockets.add(socket);
      socket.on('data', (bytes: Buffer) => {
        for (const message of reader.push(bytes)) take(message);
      });
      socket.on('error', () => socket.destroy());
      socket.on('close', () => {
        this.sockets.delete(socket);
        other.destroy();
      });
    }
  }

  private onRequest(link: Link, message: unknown): void {
    const packet = readPacket(message);
    if (!packet) throw new Error('The client sent something that is no request');
    const struck = this.next;
    if (!struck) {
      const { lost } = this;
      if (lost?.request?.body === packet.body && lost.request.pattern === packet.pattern) {
        this.lost = undefined;
        link.answered.set(packet.id, (answer) => {
          lost.answers.push(answer);
          write(link.client, answer);
        });
      }
      write(link.upstream, packet);
      return;
    }
    this.next = undefined;
    struck.request = packet;
    this.strikeNow(link, packet, struck);
  }

  private strikeNow({ client, upstream, answered }: Link, packet: Packet, struck: Striking): void {
    const onAnswer = (then: (answer: Answer) => void) =>
      answered.set(packet.id, (answer) => {
        struck.answers.push(answer);
        then(answer);
      });
    switch (struck.fault) {
      case 'lose the request':
        client.destroy();
        struck.happen();
        return;
      case 'lose the reply':
        this.lost = struck;
        onAnswer(() => {
          client.destroy();
          struck.happen();
        });
        break;
      case 'repeat the reply':
        onAnswer((answer) => {
          write(client, answer);
          write(client, answer);
          struck.happen();
        });
        break;
      case 'hold the request':
        struck.happen();
        onAnswer((answer) => write(client, answer));
        void struck.released.then(() => write(upstream, packet));
        return;
      case 'hold the reply':
        onAnswer((answer) => {
          struck.happen();
          void struck.released.then(() => write(client, answer));
        });
        break;
      case 'repeat the request':
      case 'repeat the request signed anew': {
        const isAnew = struck.fault === 'repeat the request signed anew';
        const copy = isAnew ? sign({ ...packet, secret: this.backend.secret, id: `${packet.id}-again` }, Date.now()) : packet;
        let own: Answer | undefined;
        const collect = (answer: Answer) => {
          struck.answers.push(answer);
          // Of two answers with one id the client gets the one that was not turned away.
          if (answer.id === packet.id && !(own === undefined && isTurnedAway(answer))) own = answer;
          if (struck.answers.length < 2) return true;
          if (own) write(client, own);
          struck.happen();
          return false;
        };
        for (const id of new Set([packet.id, copy.id])) {
          const again = (answer: Answer) => {
            if (collect(answer)) answered.set(id, again);
          };
          answered.set(id, again);
        }
        write(upstream, packet);
        write(upstream, copy);
        return;
      }
    }
    write(upstream, packet);
  }

  private onAnswer({ client, answered }: Link, message: unknown): void {
    const answer = readAnswer(message);
    if (!answer) throw new Error('The backend sent something that is no answer');
    const take = answered.get(answer.id);
    answered.delete(answer.id);
    if (take) take(answer);
    else write(client, answer);
  }
}

export function isTurnedAway(answer: Answer): boolean {
  return 'error' in answer && answer.error.code === 'unauthenticated';
}

function write(socket: Socket, message: Packet | Answer): void {
  if (!socket.destroyed) socket.write(encodeMessage(message));
}

function latch(): [passed: Promise<void>, open: () => void] {
  let open: () => void = () => undefined;
  const passed = new Promise<void>((resolve) => {
    open = resolve;
  });
  return [passed, open];
}
