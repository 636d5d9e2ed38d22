/**
 * The rate of one target as a worker keeps to it: by the bucket of all workers, and by a bucket of its own with its share of the rate while
 * Valkey is away. That one starts empty each time it is needed, so that going over to it gives no burst.
 */
import { LocalBucket } from './local-bucket.js';
import type { TokenBucket } from './token-bucket.js';

export class Rate {
  private local: LocalBucket | undefined;
  /** Up to when tokens were granted, by Valkey's clock. */
  private grantedToMs = 0;

  /** `workers`: how many there are, as far as is known. */
  constructor(
    private readonly origin: string,
    private readonly bucket: TokenBucket,
    private readonly workers: () => number,
  ) {}

  /** A token, and how long to wait for it; or none, and when it is worth looking again. Never throws. */
  async take({ ratePerSecond, maxWaitMs }: { ratePerSecond: number; maxWaitMs: number }): Promise<{ isGranted: boolean; waitMs: number }> {
    try {
      const grant = await this.bucket.take({ origin: this.origin, ratePerSecond, maxWaitMs, grantedToMs: this.grantedToMs });
      if (grant.isGranted) this.grantedToMs = Math.max(this.grantedToMs, grant.atMs);
      this.local = undefined;
      return grant;
    } catch {
      const nowMs = performance.now();
      this.local ??= new LocalBucket(nowMs);
      return this.local.take({ ratePerSecond: ratePerSecond / this.workers(), maxWaitMs, nowMs });
    }
  }
}
