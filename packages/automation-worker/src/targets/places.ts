/**
 * The places at one target: so many requests at once and no more, whatever becomes of them. p-limit keeps the order and the number; a
 * place is given back only by whoever holds it, so a send that hangs keeps its own.
 *
 * Nobody queues for long: whoever would wait over a second by what sends took lately is told `busy` at once, and so is whoever has waited
 * two. Nothing is dropped: everybody who enters gets an answer.
 */
import pLimit, { type LimitFunction } from 'p-limit';
import type { Left, Waiting } from './waiting.js';

const EXPECTS_AT_MOST_MS = 1_000;
const WAITS_AT_MOST_MS = 2_000;
/** So many of the last sends say how long one takes. */
const SENDS_REMEMBERED = 10;

export type Place = { kind: 'place'; giveBack(): void };

/**
 * How long somebody who joins now will wait, in ms: those ahead, each as long as the mean of the last sends, shared by the places. The age of
 * the oldest send in flight counts as one more of the last, so that a target that has begun to hang is noticed before its first send has ended.
 */
export function expectWait({ ahead, places, lastMs, oldestMs }: { ahead: number; places: number; lastMs: readonly number[]; oldestMs?: number }): number {
  const durations = oldestMs === undefined ? lastMs : [...lastMs, oldestMs];
  if (durations.length === 0) return 0;
  const meanMs = durations.reduce((sum, ms) => sum + ms, 0) / durations.length;
  return (ahead * meanMs) / places;
}

export class Places {
  private readonly limit: LimitFunction;
  /** When each place in use was taken; the first is the oldest. */
  private readonly takenAtMs = new Map<symbol, number>();
  private readonly lastMs: number[] = [];
  private entering = 0;

  constructor(
    private max: number,
    private readonly waiting: Waiting,
  ) {
    this.limit = pLimit(max);
  }

  get sending(): number {
    return this.takenAtMs.size;
  }

  /** Those for whom there is no free place. */
  get queued(): number {
    return Math.max(0, Math.min(this.entering, this.entering + this.sending - this.max));
  }

  /** From now on so many. Those above a lower number keep their places until they are done. */
  resize(max: number): void {
    if (max === this.max) return;
    this.max = max;
    this.limit.concurrency = max;
  }

  async enter(signals: readonly AbortSignal[]): Promise<Place | { kind: 'busy' } | Left> {
    const [oldestAtMs] = this.takenAtMs.values();
    const oldestMs = oldestAtMs === undefined ? {} : { oldestMs: performance.now() - oldestAtMs };
    if (expectWait({ ahead: this.queued, places: this.max, lastMs: this.lastMs, ...oldestMs }) > EXPECTS_AT_MOST_MS) return { kind: 'busy' };
    this.entering += 1;
    try {
      return await this.waiting.wait<Place | { kind: 'busy' }>({
        ms: WAITS_AT_MOST_MS,
        late: { kind: 'busy' },
        signals,
        begin: (arrive) => {
          void this.limit(
            () =>
              new Promise<void>((free) => {
                const key = Symbol();
                const takenAtMs = performance.now();
                const giveBack = () => {
                  this.takenAtMs.delete(key);
                  this.remember(performance.now() - takenAtMs);
                  free();
                };
                // Whoever has left keeps its turn in the queue and passes it on.
                if (arrive({ kind: 'place', giveBack })) this.takenAtMs.set(key, takenAtMs);
                else free();
              }),
          );
        },
      });
    } finally {
      this.entering -= 1;
    }
  }

  private remember(tookMs: number): void {
    this.lastMs.push(tookMs);
    if (this.lastMs.length > SENDS_REMEMBERED) this.lastMs.shift();
  }
}
