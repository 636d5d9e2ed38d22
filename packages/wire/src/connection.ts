/**
 * One TCP connection to the backend, with many calls open on it at once, told apart by id.
 *
 * A connection lives once: when it breaks, every call open on it is told so and the owner dials another. It never decides
 * whether a call is sent again. Writes of one turn of the event loop leave together.
 */
import { type Socket, connect } from 'node:net';
import type { RpcError } from '@onward/contracts/frame';
import { MessageReader } from './codec.js';
import { readAnswer } from './signing.js';

export const CONNECT_TIMEOUT_MS = 2_000;
const KEEP_ALIVE_DELAY_MS = 10_000;

/** What one sending came to. `broken`: the connection ended first, so the backend may or may not have done the work. */
export type Sent = { kind: 'reply'; reply: unknown } | { kind: 'error'; error: RpcError } | { kind: 'broken'; why: string };

export class Connection {
  readonly #socket: Socket;
  readonly #open = new Map<string, (sent: Sent) => void>();
  #isCorked = false;
  #isRetired = false;
  /** When the last bytes came, in ms of `performance.now()`. */
  #heardAtMs = performance.now();

  private constructor(socket: Socket, onEnded: (connection: Connection, why: string) => void) {
    this.#socket = socket;
    const reader = new MessageReader();
    let why = 'the connection was closed by the backend';
    socket.on('data', (chunk: Buffer) => {
      this.#heardAtMs = performance.now();
      try {
        for (const message of reader.push(chunk)) this.#take(message);
      } catch (error) {
        socket.destroy(error instanceof Error ? error : new Error(String(error)));
      }
    });
    socket.on('error', (error) => {
      why = error.message;
    });
    // Nothing can be answered after the backend's end of stream, so the calls left are told at once.
    socket.on('end', () => socket.destroy());
    socket.on('close', () => {
      const left = [...this.#open.values()];
      this.#open.clear();
      onEnded(this, why);
      for (const settle of left) settle({ kind: 'broken', why });
    });
  }

  /** Dials. Rejects when refused, unresolved, or not connected within CONNECT_TIMEOUT_MS. `onEnded` is called once, when a made connection has ended. */
  static open({ host, port }: { host: string; port: number }, onEnded: (connection: Connection, why: string) => void): Promise<Connection> {
    return new Promise((resolve, reject) => {
      const socket = connect({ host, port, noDelay: true, keepAlive: true, keepAliveInitialDelay: KEEP_ALIVE_DELAY_MS });
      const timer = setTimeout(() => socket.destroy(new Error(`no connection to ${host}:${port} within ${CONNECT_TIMEOUT_MS} ms`)), CONNECT_TIMEOUT_MS);
      const fail = (error: Error) => {
        clearTimeout(timer);
        reject(error);
      };
      socket.once('error', fail);
      socket.once('connect', () => {
        clearTimeout(timer);
        socket.off('error', fail);
        resolve(new Connection(socket, onEnded));
      });
    });
  }

  get isEnded(): boolean {
    return this.#socket.destroyed;
  }

  /** Writes one encoded call and calls `settle` at most once, never before this returns. `forget` drops it when it is still open: its late answer is ignored. */
  send(id: string, bytes: Buffer, settle: (sent: Sent) => void): { forget: () => 'forgotten' | 'settled' } {
    if (this.isEnded) {
      queueMicrotask(() => settle({ kind: 'broken', why: 'the connection was closed' }));
      return { forget: () => 'settled' };
    }
    this.#open.set(id, settle);
    if (!this.#isCorked) {
      this.#isCorked = true;
      this.#socket.cork();
      process.nextTick(() => {
        this.#isCorked = false;
        this.#socket.uncork();
      });
    }
    this.#socket.write(bytes);
    return {
      forget: () => {
        if (!this.#open.delete(id)) return 'settled';
        this.#closeWhenDone();
        return 'forgotten';
      },
    };
  }

  /** No new call will be sent here; the socket ends with the last answer. */
  retire(): void {
    this.#isRetired = true;
    this.#closeWhenDone();
  }

  /** Whether no byte came since `sinceMs` (of `performance.now()`): with a call unanswered the peer may be gone without a trace. */
  isSilentSince(sinceMs: number): boolean {
    return this.#heardAtMs < sinceMs;
  }

  /** Ends the connection now; the calls open on it are `broken`. */
  destroy(why: string): void {
    this.#socket.destroy(new Error(why));
  }

  #take(message: unknown): void {
    const answer = readAnswer(message);
    if (!answer) throw new Error('the backend sent something that is no answer');
    const settle = this.#open.get(answer.id);
    if (!settle) return;
    this.#open.delete(answer.id);
    settle('reply' in answer ? { kind: 'reply', reply: answer.reply } : { kind: 'error', error: answer.error });
    this.#closeWhenDone();
  }

  #closeWhenDone(): void {
    if (this.#isRetired && this.#open.size === 0) this.#socket.destroy();
  }
}
