/**
 * How long one call waits: until its deadline, until its caller aborts it, or until the client is closed; whichever is first.
 * It holds a timer and a listener, so who makes one ends it with `release`.
 */
export type Interruption = { kind: 'late' } | { kind: 'aborted'; reason: unknown } | { kind: 'closed' };

export class Patience {
  /** Settles when waiting is over; never, when the call ended first. */
  readonly over: Promise<Interruption>;
  readonly #interrupt: (why: Interruption) => void;
  readonly #timer: NodeJS.Timeout | undefined;
  readonly #signal: AbortSignal | undefined;

  /** `timeoutMs` null waits without end. */
  constructor({ timeoutMs, signal }: { timeoutMs: number | null; signal: AbortSignal | undefined }) {
    let interrupt: (why: Interruption) => void = () => undefined;
    this.over = new Promise((resolve) => {
      interrupt = resolve;
    });
    this.#interrupt = interrupt;
    this.#signal = signal;
    if (timeoutMs !== null) this.#timer = setTimeout(() => interrupt({ kind: 'late' }), timeoutMs);
    if (signal?.aborted) this.#abort();
    else signal?.addEventListener('abort', this.#abort);
  }

  close(): void {
    this.#interrupt({ kind: 'closed' });
  }

  /** Waits `ms`, or less: then it answers what interrupted it. */
  async pause(ms: number): Promise<Interruption | null> {
    let timer: NodeJS.Timeout | undefined;
    const pause = new Promise<null>((resolve) => {
      timer = setTimeout(() => resolve(null), ms);
    });
    const interruption = await Promise.race([pause, this.over]);
    clearTimeout(timer);
    return interruption;
  }

  release(): void {
    clearTimeout(this.#timer);
    this.#signal?.removeEventListener('abort', this.#abort);
  }

  readonly #abort = (): void => this.#interrupt({ kind: 'aborted', reason: this.#signal?.reason });
}
