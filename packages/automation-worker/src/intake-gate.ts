/**
 * Keeps a slow backend from being asked for more and more: while its frames take long, no run is begun until few are in hand. Only beginnings wait
 * here; outcomes are always recorded at once. A worker with few runs in hand begins another whatever the frames take, so there is always a frame
 * to learn from.
 *
 * How long frames take is a moving average over those that have been answered or have failed.
 */

/** Frames that take longer than this on the average are slow. */
const SLOW_MS = 1_000;
/** The weight of the last frame in the average. */
const WEIGHT = 0.2;
/** With so much of the worker's runs in hand, and not more, a run is begun also while frames are slow. */
const FLOOR_SHARE = 1 / 8;

export class IntakeGate {
  private readonly floor: number;
  /** First come, first served. */
  private readonly waiting: ((answer: 'begin' | 'stopping') => void)[] = [];
  private inHand = 0;
  private frameMs = 0;

  /** `concurrency`: runs driven at the same time; `stopping`: whoever waits is sent away then, and so is whoever comes later. */
  constructor(
    concurrency: number,
    private readonly stopping: AbortSignal,
  ) {
    this.floor = Math.max(1, Math.floor(concurrency * FLOOR_SHARE));
    stopping.addEventListener('abort', () => this.look(), { once: true });
  }

  /** Resolves when a run may be begun; whoever was told so calls `leave` when the run is no longer in hand. */
  enter(): Promise<'begin' | 'stopping'> {
    return new Promise((resolve) => {
      this.waiting.push(resolve);
      this.look();
    });
  }

  leave(): void {
    this.inHand -= 1;
    this.look();
  }

  noteFrame(tookMs: number): void {
    this.frameMs += (tookMs - this.frameMs) * WEIGHT;
    this.look();
  }

  private look(): void {
    while (this.waiting.length > 0 && (this.stopping.aborted || this.frameMs <= SLOW_MS || this.inHand < this.floor)) {
      const answer = this.stopping.aborted ? 'stopping' : 'begin';
      if (answer === 'begin') this.inHand += 1;
      this.waiting.shift()?.(answer);
    }
  }
}
