/**
 * The rate of a target, kept by all workers together: one bucket in Valkey, by Valkey's own clock.
 *
 * A bucket fills at `ratePerSecond` up to half a second's worth (one at least), so that any ten seconds hold ten and a half seconds' worth at
 * most. A new one is empty: a wiped Valkey gives no burst. What is granted may lie ahead: a token not there yet is reserved when its instant
 * comes within `maxWaitMs`, and otherwise nothing is taken and the wait is told. A caller says up to when it has been granted tokens, so that a
 * bucket that has forgotten them does not grant the same instants again.
 * Not promised: anything when Valkey is away or answers late; then this throws, and the token it may have taken is lost.
 */
import { Redis } from 'ioredis';
import type { Logger } from 'pino';

const ANSWERS_WITHIN_MS = 250;
/** A connection that stays silent for so long is given up, so that nothing piles up behind a Valkey that hangs. */
const SILENT_AT_MOST_MS = 2_000;
/** An idle bucket is kept for so long beyond the time it needs to fill. */
const KEPT_IDLE_MS = 600_000;

/**
 * KEYS[1]: the bucket. ARGV: tokens a second; the longest wait, in ms; up to when the caller was granted tokens, in ms since 1970, or 0.
 * Answers: 1 or 0 (granted or not); the wait, in ms; the instant it ends, in ms since 1970.
 * A clock that was set back makes it start from now with what it holds; a grant that lies further ahead than any can is of such a clock.
 */
const TAKE_TOKEN = `
local time = redis.call('TIME')
local now = time[1] * 1000 + time[2] / 1000
local perMs = tonumber(ARGV[1]) / 1000
local maxWait = tonumber(ARGV[2])
local grantedTo = tonumber(ARGV[3])
local capacity = math.max(1, perMs * 500)
local kept = redis.call('HMGET', KEYS[1], 'tokens', 'at')
local tokens = tonumber(kept[1] or 0)
local at = tonumber(kept[2] or now)
tokens = math.min(capacity, tokens + math.max(0, now - at) * perMs)
tokens = math.max(tokens, -maxWait * perMs)
if grantedTo > now and grantedTo - now <= maxWait + 1 then
  tokens = math.min(tokens, (now - grantedTo) * perMs)
end
local wait = math.max(0, (1 - tokens) / perMs)
local granted = 0
if wait <= maxWait then
  granted = 1
  tokens = tokens - 1
end
redis.call('HSET', KEYS[1], 'tokens', string.format('%.6f', tokens), 'at', string.format('%.3f', now))
redis.call('PEXPIRE', KEYS[1], math.ceil((capacity - tokens) / perMs) + ${KEPT_IDLE_MS})
return { granted, math.ceil(wait), math.ceil(now + wait) }
`;

/** `atMs`: the instant the wait ends, by Valkey's clock, in ms since 1970. */
export type Grant = { isGranted: boolean; waitMs: number; atMs: number };
export type Wanted = { origin: string; ratePerSecond: number; maxWaitMs: number; grantedToMs: number };

type WithScript = Redis & { takeToken(key: string, ratePerSecond: number, maxWaitMs: number, grantedToMs: number): Promise<[number, number, number]> };

export class TokenBucket {
  private readonly redis: WithScript;
  private isAway = false;

  constructor(
    valkeyUrl: string,
    private readonly log: Logger,
  ) {
    this.redis = new Redis(valkeyUrl, {
      commandTimeout: ANSWERS_WITHIN_MS,
      socketTimeout: SILENT_AT_MOST_MS,
      enableOfflineQueue: false,
      maxRetriesPerRequest: 0,
      retryStrategy: (dials) => Math.min(dials * 100, 2_000),
      scripts: { takeToken: { lua: TAKE_TOKEN, numberOfKeys: 1 } },
    }) as WithScript;
    this.redis.on('error', (error) => log.debug({ why: error.message || error.name }, 'trouble with the connection that keeps the rates'));
  }

  /** Throws when Valkey does not answer in time. */
  async take({ origin, ratePerSecond, maxWaitMs, grantedToMs }: Wanted): Promise<Grant> {
    try {
      const [granted, waitMs, atMs] = await this.redis.takeToken(`{onward}:rate:${origin}`, ratePerSecond, maxWaitMs, grantedToMs);
      if (this.isAway) this.log.info('the rates of targets are kept by all workers together again');
      this.isAway = false;
      return { isGranted: granted === 1, waitMs, atMs };
    } catch (error) {
      if (!this.isAway) this.log.warn({ why: String(error) }, 'Valkey keeps no rates; this worker keeps its own share of them meanwhile');
      this.isAway = true;
      throw error;
    }
  }

  close(): void {
    this.redis.disconnect();
  }
}
