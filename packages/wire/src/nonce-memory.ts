/**
 * Remembers the nonces of authentic packets for as long as such a packet could be sent again, so that it is taken once.
 *
 * Nonces are kept in generations that are forgotten whole: a packet signed by a clock that runs ahead may come early and stay valid
 * for twice the window, so nothing younger than that is forgotten by age. The memory is bounded: when it is full the oldest
 * generation goes early, and from then on a packet as old as any in it is refused unseen. A full memory may so refuse an
 * honest old packet, but never takes one twice.
 *
 * Not promised: anything across processes or restarts. A replay to another process meets the fence like any repeat.
 */

/** A packet is taken this long before and after its own time, in ms. */
export const WINDOW_MS = 30_000;

const GENERATION_MS = 15_000;
const GENERATIONS_AT_LEAST = 8;
const DEFAULT_CAPACITY = 1_000_000;

interface Generation {
  readonly startedAtMs: number;
  latestAtMs: number;
  readonly nonces: Set<string>;
}

export class NonceMemory {
  readonly #capacity: number;
  /** Oldest first; the last one is written to. */
  #generations: Generation[] = [];
  #size = 0;
  /** Packets of this time or before are refused: some of them were forgotten early. */
  #floorAtMs = Number.NEGATIVE_INFINITY;

  /** `capacity` is the number of nonces held at most. */
  constructor({ capacity = DEFAULT_CAPACITY }: { capacity?: number } = {}) {
    this.#capacity = Math.max(capacity, GENERATIONS_AT_LEAST);
  }

  get size(): number {
    return this.#size;
  }

  /** Notes the nonce of a packet signed at `atMs`; false when it was seen before or is too old to know. `nowMs` is this process's clock. */
  remember(nonce: string, atMs: number, nowMs: number): boolean {
    this.#forgetOld(nowMs);
    if (atMs <= this.#floorAtMs) return false;
    if (this.#generations.some((generation) => generation.nonces.has(nonce))) return false;
    const generation = this.#current(nowMs);
    generation.nonces.add(nonce);
    generation.latestAtMs = Math.max(generation.latestAtMs, atMs);
    this.#size++;
    if (this.#size > this.#capacity) this.#forgetFirst('early');
    return true;
  }

  #forgetOld(nowMs: number): void {
    for (let first = this.#generations[0]; first && first.startedAtMs + GENERATION_MS + 2 * WINDOW_MS < nowMs; first = this.#generations[0]) {
      this.#forgetFirst('in time');
    }
  }

  #forgetFirst(why: 'in time' | 'early'): void {
    const first = this.#generations.shift();
    if (!first) return;
    this.#size -= first.nonces.size;
    if (why === 'early') this.#floorAtMs = Math.max(this.#floorAtMs, first.latestAtMs);
  }

  #current(nowMs: number): Generation {
    const last = this.#generations.at(-1);
    const isFull = last !== undefined && last.nonces.size >= this.#capacity / GENERATIONS_AT_LEAST;
    if (last && !isFull && nowMs < last.startedAtMs + GENERATION_MS) return last;
    const next: Generation = { startedAtMs: nowMs, latestAtMs: Number.NEGATIVE_INFINITY, nonces: new Set() };
    this.#generations.push(next);
    return next;
  }
}
