import type { WorkerGauges } from '@onward/contracts/frame';
import { Injectable } from '@nestjs/common';

/** A worker not heard of for this long, in ms, is taken for gone: three renewals of the longest usual lease. */
const GONE_AFTER_MS = 60_000;

/** The workers this backend hears of, from what they say of themselves with every renewal. A view, not a truth: nothing is decided by it. */
@Injectable()
export class Workers {
  private readonly seen = new Map<string, WorkerGauges & { atMs: number }>();

  note(gauges: WorkerGauges): void {
    this.seen.set(gauges.workerId, { ...gauges, atMs: performance.now() });
  }

  /** How many are there, and how many runs they have in hand. */
  summary(): { workers: number; runsInHand: number } {
    let runsInHand = 0;
    for (const [id, { atMs, inFlight }] of this.seen) {
      if (performance.now() - atMs > GONE_AFTER_MS) this.seen.delete(id);
      else runsInHand += inFlight;
    }
    return { workers: this.seen.size, runsInHand };
  }
}
