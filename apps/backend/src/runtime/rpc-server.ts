import { createServer, type Server as NetServer, type Socket } from 'node:net';
import { ERRORS } from '@onward/contracts/errors';
import { PATTERNS, type Pattern, type RpcError } from '@onward/contracts/frame';
import { CodecError, encodeMessage, MessageReader, parseJson } from '@onward/wire/codec';
import { NonceMemory } from '@onward/wire/nonce-memory';
import { type Packet, readPacket, verify } from '@onward/wire/signing';
import { type CustomTransportStrategy, Server } from '@nestjs/microservices';
import type { Logger } from 'pino';
import { firstValueFrom } from 'rxjs';
import { rpcErrorOf } from './rpc-failure.js';

/** A stranger may stay this long, and a message begun may take this long to be whole, in ms. */
const PATIENCE_MS = 30_000;
const MAX_CONNECTIONS = 2_000;

/** `secrets`: a message signed with any of them is authentic. */
type Options = { host: string; port: number; secrets: readonly string[]; drainTimeoutMs: number; log: Logger };

/**
 * The TCP side of the backend, as a transport of NestJS: message handlers are ordinary Nest ones.
 *
 * A message is authenticated before it is looked at, its pattern must be one of the catalogue and its data of that pattern's schema;
 * only then a handler sees it. Whatever goes wrong is answered with an error of the catalogue. Closing refuses new calls as `draining`,
 * lets those in flight finish and be answered, and only then closes the sockets.
 */
export class RpcServer extends Server implements CustomTransportStrategy {
  private readonly server: NetServer;
  private readonly sockets = new Set<Socket>();
  private readonly nonces = new NonceMemory();
  private readonly inFlight = new Set<Promise<void>>();
  private draining: Promise<void> | undefined;

  constructor(private readonly rpc: Options) {
    super();
    this.server = createServer({ noDelay: true, keepAlive: true }, (socket) => this.serve(socket));
    this.server.maxConnections = MAX_CONNECTIONS;
  }

  /** The port it listens on, also when 0 was asked for. */
  get port(): number {
    const address = this.server.address();
    return typeof address === 'object' && address ? address.port : this.rpc.port;
  }

  listen(callback: (error?: Error) => void): void {
    this.server.once('error', callback);
    this.server.listen(this.rpc.port, this.rpc.host, () => {
      this.server.off('error', callback);
      this.server.on('error', (error) => this.rpc.log.error({ err: error }, 'the RPC server failed'));
      callback();
    });
  }

  /** Refuses what comes from now on and waits for what is in flight, at most the drain time; asked again it waits for the same. */
  drain(): Promise<void> {
    this.draining ??= this.finishInFlight();
    return this.draining;
  }

  private async finishInFlight(): Promise<void> {
    const all = Promise.allSettled([...this.inFlight]);
    await Promise.race([all, new Promise((resolve) => setTimeout(resolve, this.rpc.drainTimeoutMs).unref())]);
  }

  async close(): Promise<void> {
    await this.drain();
    for (const socket of this.sockets) socket.end();
    const closed = new Promise<void>((resolve) => this.server.close(() => resolve()));
    setTimeout(() => {
      for (const socket of this.sockets) socket.destroy();
    }, 500).unref();
    await closed;
  }

  /** Part of Nest's contract for a transport; nothing here listens for its events. */
  on(): void {}

  unwrap<T>(): T {
    return this.server as T;
  }

  private serve(socket: Socket): void {
    this.sockets.add(socket);
    const reader = new MessageReader();
    // Running until the first authentic message, and from then on whenever bytes have come that are no whole message yet.
    let patience: NodeJS.Timeout | undefined = setTimeout(() => socket.destroy(), PATIENCE_MS);
    const calm = () => {
      clearTimeout(patience);
      patience = undefined;
    };
    socket.on('close', () => {
      calm();
      this.sockets.delete(socket);
    });
    socket.on('error', () => socket.destroy());
    socket.on('data', (chunk) => {
      let messages: unknown[];
      try {
        messages = reader.push(chunk);
      } catch (error) {
        if (!(error instanceof CodecError)) this.rpc.log.error({ err: error }, 'a message could not be read');
        socket.destroy();
        return;
      }
      for (const message of messages) this.take(socket, message, calm);
      if (messages.length === 0) patience ??= setTimeout(() => socket.destroy(), PATIENCE_MS);
    });
  }

  private take(socket: Socket, message: unknown, calm: () => void): void {
    const packet = readPacket(message);
    if (!packet) {
      socket.destroy();
      return;
    }
    const handling = this.answer(packet, { calm, isAsked: () => !socket.destroyed }).then((answer) => this.reply(socket, packet.id, answer));
    this.inFlight.add(handling);
    void handling.finally(() => this.inFlight.delete(handling));
  }

  private async answer(packet: Packet, { calm, isAsked }: { calm: () => void; isAsked: () => boolean }): Promise<{ reply: unknown } | { error: RpcError }> {
    try {
      if (verify(packet, { secrets: this.rpc.secrets, now: Date.now(), nonces: this.nonces }) !== 'ok') return errorOf('unauthenticated');
      calm();
      if (this.draining) return errorOf('draining');
      if (!isPattern(packet.pattern)) return errorOf('unknown_pattern');
      const handler = this.messageHandlers.get(packet.pattern);
      if (!handler) return errorOf('unknown_pattern');
      const data = PATTERNS[packet.pattern].request.safeParse(parseJson(packet.body));
      if (!data.success) {
        const [issue] = data.error.issues;
        return { error: { code: 'invalid', detail: `${issue?.path.join('.') || 'data'}: ${issue?.message ?? 'not valid'}`.slice(0, 500) } };
      }
      return { reply: await firstValueFrom(this.transformToObservable(await handler(data.data, { pattern: packet.pattern, isAsked }))) };
    } catch (error) {
      return this.toError(error);
    }
  }

  private toError(error: unknown): { error: RpcError } {
    if (error instanceof CodecError) return { error: { code: error.code === 'too_large' ? 'too_large' : 'malformed', detail: error.message } };
    return { error: rpcErrorOf(error, this.rpc.log) };
  }

  private reply(socket: Socket, id: string, answer: { reply: unknown } | { error: RpcError }): void {
    let bytes: Buffer;
    try {
      bytes = encodeMessage({ id, ...answer });
    } catch (error) {
      bytes = encodeMessage({ id, ...this.toError(error) });
    }
    if (!socket.destroyed) socket.write(bytes);
  }
}

function isPattern(name: string): name is Pattern {
  return Object.hasOwn(PATTERNS, name);
}

function errorOf(code: keyof typeof ERRORS): { error: RpcError } {
  return { error: { code, detail: ERRORS[code].title } };
}
