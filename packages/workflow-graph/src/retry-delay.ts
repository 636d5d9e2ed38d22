/**
 * How long a failed step rests before its next attempt, in ms: exponential with jitter (30 s, 2 min, 8 min, ... each ±20 %, at most
 * 1 h), or the target's own wish (Retry-After, RFC 9110 §10.2.3) when that is later, but never more than 24 h.
 * The random number is handed in, so the same inputs always give the same answer.
 */

const BASE_MS = 30_000;
const FACTOR = 4;
const JITTER = 0.2;
const MAX_BACKOFF_MS = 3_600_000;
const MAX_RETRY_AFTER_MS = 24 * 3_600_000;

/** `failures` counts the failed attempts, the latest included (1 and up); `random01` lies between 0 and 1. Always a whole, finite number. */
export function retryDelay(failures: number, random01: number, { retryAfterMs }: { retryAfterMs?: number | undefined } = {}): number {
  const exponent = Number.isFinite(failures) ? Math.max(0, Math.floor(failures) - 1) : 0;
  const random = Number.isFinite(random01) ? Math.min(1, Math.max(0, random01)) : 0.5;
  const jittered = BASE_MS * FACTOR ** exponent * (1 - JITTER + 2 * JITTER * random);
  const backoffMs = Math.round(Math.min(jittered, MAX_BACKOFF_MS));
  const wishedMs = retryAfterMs !== undefined && retryAfterMs > 0 ? Math.ceil(Math.min(retryAfterMs, MAX_RETRY_AFTER_MS)) : 0;
  return Math.max(backoffMs, wishedMs);
}
