/**
 * The authenticated way from a worker or a gateway to the backend: every pattern of the contracts as a typed call.
 *
 * A call is sent again, signed anew, 0.2-2 s apart, while its connection breaks, cannot be made, or the backend answers `draining` or
 * `unavailable`, or refuses a signature that has grown old on the way; until its deadline. So the backend may see one call several times and must answer a repeat from what it
 * recorded. An answer that sending again cannot cure throws RpcFault at once; a passed deadline throws RpcTimeout; a call that was
 * aborted throws the reason of its signal. Each of them means that the outcome is unknown.
 *
 * Not promised: any order among calls, and that a call that threw has not been carried out.
 */
import { PATTERNS, type Pattern, type PatternReply, type PatternRequest } from '@onward/contracts/frame';
import type { ErrorCode } from '@onward/contracts/errors';
import { RPC_TIMEOUT_MS } from '@onward/contracts/patterns';
import { CodecError, stringify } from './codec.js';
import { Connection, type Sent } from './connection.js';
import { ClientClosed, PASSING, RpcFault, RpcTimeout } from './faults.js';
import { WINDOW_MS } from './nonce-memory.js';
import { type Interruption, Patience } from './patience.js';
import { encodePacket, sign } from './signing.js';

const MIN_PAUSE_MS = 200;
const MAX_PAUSE_MS = 2_000;

/** The part of a pino logger that is used here. */
export interface Log {
  info(fields: object, message: string): void;
  warn(fields: object, message: string): void;
}

/** Where the backend listens, the shared secret, and how long a call may take (ms; 75 s unless given). */
export interface BackendTarget {
  host: string;
  port: number;
  secret: string;
  timeoutMs?: number;
  log?: Log;
}

export interface CallOptions {
  /** Ends the call early; it then throws the signal's reason. */
  signal?: AbortSignal;
  /** The whole time of the call, repeats included, in ms. */
  timeoutMs?: number;
}

type Broken = Extract<Sent, { kind: 'broken' }>;

export class BackendClient {
  readonly #target: BackendTarget;
  readonly #timeoutMs: number;
  readonly #waiting = new Set<Patience>();
  /** The connection new calls take; one that was retired or has ended is not here. */
  #live: Connection | undefined;
  #dialling: Promise<Connection | Broken> | undefined;
  #lastId = 0;
  #isDown = false;
  #isClosed = false;

  /** Dials nothing: the first call does. */
  constructor(target: BackendTarget) {
    this.#target = target;
    this.#timeoutMs = target.timeoutMs ?? RPC_TIMEOUT_MS;
  }

  /** Asks the backend and answers its reply, checked against the pattern. Throws RpcFault, RpcTimeout, ClientClosed or the signal's reason. */
  async call<P extends Pattern>(pattern: P, data: PatternRequest<P>, options: CallOptions = {}): Promise<PatternReply<P>> {
    options.signal?.throwIfAborted();
    return this.callWithText(
      pattern,
      encoded(pattern, () => stringify(data)),
      options,
    );
  }

  /** The same for data that is JSON text already. */
  async callWithText<P extends Pattern>(pattern: P, body: string, { signal, timeoutMs = this.#timeoutMs }: CallOptions = {}): Promise<PatternReply<P>> {
    signal?.throwIfAborted();
    const patience = this.#wait({ timeoutMs, signal });
    let lastReason: string | null = null;
    try {
      for (let sending = 1; ; sending++) {
        const signedAt = Date.now();
        const sent = await this.#send(pattern, body, patience);
        if (sent.kind === 'reply') return checkedReply(pattern, sent.reply);
        if (sent.kind === 'error' && !isPassing(sent.error.code, Date.now() - signedAt)) throw new RpcFault(pattern, sent.error.code, sent.error.detail);
        if (sent.kind === 'error') lastReason = `${sent.error.code}: ${sent.error.detail}`;
        else if (sent.kind === 'broken') lastReason = sent.why;
        else throw thrownFor(sent, { pattern, timeoutMs, lastReason });
        const interruption = await patience.pause(pauseMs(sending));
        if (interruption) throw thrownFor(interruption, { pattern, timeoutMs, lastReason });
      }
    } finally {
      this.#stopWaiting(patience);
    }
  }

  /**
   * Returns when a connection to the backend stands; says once, through `log`, what it waits for. It shows that something listens there,
   * not that the secret is right. Throws ClientClosed or the signal's reason.
   */
  async waitUntilReachable(log: Log, { signal }: { signal?: AbortSignal } = {}): Promise<void> {
    const { host, port } = this.#target;
    const patience = this.#wait({ timeoutMs: null, signal });
    try {
      for (let dial = 1; ; dial++) {
        const connection = await Promise.race([patience.over, this.#connect()]);
        if (connection instanceof Connection) return;
        if (connection.kind !== 'broken') throw thrownFor(connection, { pattern: 'connect', timeoutMs: 0, lastReason: null });
        if (dial === 1) log.info({ host, port, why: connection.why }, `waiting for the backend at ${host}:${port}`);
        const interruption = await patience.pause(pauseMs(dial));
        if (interruption) throw thrownFor(interruption, { pattern: 'connect', timeoutMs: 0, lastReason: connection.why });
      }
    } finally {
      this.#stopWaiting(patience);
    }
  }

  /** Ends the connection for good; every open call throws ClientClosed. */
  close(): void {
    this.#isClosed = true;
    for (const patience of this.#waiting) patience.close();
    this.#live?.destroy('the client is closed');
    this.#live = undefined;
  }

  async #send(pattern: Pattern, body: string, patience: Patience): Promise<Sent | Interruption> {
    const id = (++this.#lastId).toString(36);
    const bytes = encoded(pattern, () => encodePacket(sign({ secret: this.#target.secret, pattern, body, id }, Date.now())));
    const connection = this.#live ?? (await Promise.race([patience.over, this.#connect()]));
    if (!(connection instanceof Connection)) return connection;
    const sentAtMs = performance.now();
    const sent = await new Promise<Sent | Interruption>((resolve) => {
      const { forget } = connection.send(id, bytes, resolve);
      void patience.over.then((interruption) => {
        if (forget() === 'settled') return;
        // A peer that vanished leaves a connection that never breaks: the calls on it are better sent over another.
        if (interruption.kind === 'late' && connection.isSilentSince(sentAtMs)) this.#abandon(connection);
        resolve(interruption);
      });
    });
    if (sent.kind === 'error' && sent.error.code === 'draining') this.#retire(connection);
    return sent;
  }

  #connect(): Promise<Connection | Broken> {
    if (this.#live) return Promise.resolve(this.#live);
    this.#dialling ??= this.#dial();
    return this.#dialling;
  }

  async #dial(): Promise<Connection | Broken> {
    try {
      const connection = await Connection.open(this.#target, (ended, why) => {
        if (this.#live !== ended) return;
        this.#live = undefined;
        // One that nobody waits on may be closed at any time (the backend keeps no strangers); the next call dials again.
        if (this.#waiting.size > 0) this.#noteDown(why);
      });
      if (this.#isClosed) connection.destroy('the client is closed');
      else if (!connection.isEnded) this.#live = connection;
      this.#noteUp();
      return connection;
    } catch (error) {
      const why = error instanceof Error ? error.message : String(error);
      this.#noteDown(why);
      return { kind: 'broken', why };
    } finally {
      this.#dialling = undefined;
    }
  }

  /** The backend behind it is closing: calls still open there are answered, new ones dial again. */
  #retire(connection: Connection): void {
    if (this.#live === connection) this.#live = undefined;
    connection.retire();
  }

  #abandon(connection: Connection): void {
    if (this.#live === connection) this.#live = undefined;
    this.#noteDown('the backend did not answer');
    connection.destroy('the backend did not answer');
  }

  #wait(limits: { timeoutMs: number | null; signal: AbortSignal | undefined }): Patience {
    const patience = new Patience(limits);
    if (this.#isClosed) patience.close();
    this.#waiting.add(patience);
    return patience;
  }

  #stopWaiting(patience: Patience): void {
    patience.release();
    this.#waiting.delete(patience);
  }

  #noteDown(why: string): void {
    if (this.#isDown || this.#isClosed) return;
    this.#isDown = true;
    this.#target.log?.warn({ host: this.#target.host, port: this.#target.port, why }, 'the backend cannot be reached; open calls are sent again');
  }

  #noteUp(): void {
    if (!this.#isDown || this.#isClosed) return;
    this.#isDown = false;
    this.#target.log?.info({ host: this.#target.host, port: this.#target.port }, 'the backend is reached again');
  }
}

/**
 * Will it pass when the call is sent again, signed anew? A signature is taken for 30 s only, and a call that lay before a backend that stood still is refused
 * for nothing but its age.
 */
function isPassing(code: ErrorCode, sinceSignedMs: number): boolean {
  return PASSING.has(code) || (code === 'unauthenticated' && sinceSignedMs > WINDOW_MS / 2);
}

/** Grows to 2 s; the jitter keeps callers that broke together from coming back together. */
function pauseMs(sending: number): number {
  const ceilingMs = Math.min(MAX_PAUSE_MS, MIN_PAUSE_MS * 2 ** sending);
  return MIN_PAUSE_MS + Math.random() * (ceilingMs - MIN_PAUSE_MS);
}

/** Runs an encoding step; what may not travel becomes the RpcFault that the backend would answer. */
function encoded<T>(pattern: Pattern, encode: () => T): T {
  try {
    return encode();
  } catch (error) {
    if (error instanceof CodecError) throw new RpcFault(pattern, error.code === 'too_large' ? 'too_large' : 'malformed', error.message);
    throw error;
  }
}

function checkedReply<P extends Pattern>(pattern: P, reply: unknown): PatternReply<P> {
  const checked = PATTERNS[pattern].reply.safeParse(reply);
  if (!checked.success)
    throw new RpcFault(
      pattern,
      'malformed',
      `the reply does not fit: ${checked.error.issues
        .map(({ path, message }) => `${path.join('.')}: ${message}`)
        .join('; ')
        .slice(0, 500)}`,
    );
  return checked.data as PatternReply<P>;
}

function thrownFor(interruption: Interruption, call: { pattern: string; timeoutMs: number; lastReason: string | null }): unknown {
  switch (interruption.kind) {
    case 'late':
      return new RpcTimeout(call.pattern, call.timeoutMs, call.lastReason);
    case 'aborted':
      return interruption.reason;
    case 'closed':
      return new ClientClosed(call.pattern);
  }
}
