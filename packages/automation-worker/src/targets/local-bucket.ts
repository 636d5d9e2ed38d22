/**
 * The token bucket without Valkey: one worker's share of a target's rate. The same rules as in token-bucket.ts: it starts empty, holds half
 * a second's worth (one at least), and reserves a token whose instant comes within the wait that is allowed.
 */
export class LocalBucket {
  private tokens = 0;

  /** `atMs`: now, by the clock that `take` is given. */
  constructor(private atMs: number) {}

  take({ ratePerSecond, maxWaitMs, nowMs }: { ratePerSecond: number; maxWaitMs: number; nowMs: number }): { isGranted: boolean; waitMs: number } {
    const perMs = ratePerSecond / 1_000;
    const filled = Math.min(Math.max(1, ratePerSecond / 2), this.tokens + Math.max(0, nowMs - this.atMs) * perMs);
    this.tokens = Math.max(filled, -maxWaitMs * perMs);
    this.atMs = nowMs;
    const waitMs = Math.max(0, (1 - this.tokens) / perMs);
    const isGranted = waitMs <= maxWaitMs;
    if (isGranted) this.tokens -= 1;
    return { isGranted, waitMs: Math.ceil(waitMs) };
  }
}
