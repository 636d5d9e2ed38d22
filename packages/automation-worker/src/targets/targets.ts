/**
 * The gate before every target: breaker, places, rate, in this order; only then is anything sent, once. What may not be sent now is
 * answered as `not_sent` with what blocks it and when it is worth looking again; it spends nothing, and nothing is ever dropped.
 *
 * Those who wait are sent back at once when the target answers 429 or 503 and asks to be left alone, and leave at once when the worker stops
 * or their lease is lost; when the breaker opens their turn comes to nothing. The targets used last are remembered; the others start anew.
 */
import type { Outcome } from '@onward/contracts/outcome';
import { MAX_TARGET_REPORTS, originSchema, type TargetLimits, type TargetReport } from '@onward/contracts/targets';
import type { Logger } from 'pino';
import { Breaker, soonMs, statusOf } from './breakers.js';
import { Places } from './places.js';
import { Rate } from './rate.js';
import { TokenBucket } from './token-bucket.js';
import { type Block, type Left, Waiting } from './waiting.js';

const TARGETS_REMEMBERED = 1_000;
/** Requests at once to a target that nobody set limits for, however many runs a worker drives. */
const MOST_PLACES = 50;
const WAITS_FOR_ITS_INSTANT_AT_MOST_MS = 1_000;

export type Sending = {
  /** Aborted when it may no longer be sent: whoever waits leaves. */
  signals: readonly AbortSignal[];
  /** Why it may not be sent, for reasons that are not the target's; looked at right before the first byte. */
  whyNot(): string | undefined;
  send(): Promise<Outcome>;
};

type Target = { origin: string; breaker: Breaker; places: Places; rate: Rate; waiting: Waiting; inHand: number };

export class Targets {
  /** In the order of use, the latest at the end. */
  private readonly byOrigin = new Map<string, Target>();
  private latest: Target | undefined;
  private readonly bucket: TokenBucket;

  /** `concurrency`: runs driven at the same time; `workers`: how many workers there are, as far as is known. */
  constructor(private readonly options: { concurrency: number; breakerResetMs: number; valkeyUrl: string; workers: () => number; log: Logger }) {
    this.bucket = new TokenBucket(options.valkeyUrl, options.log);
  }

  /** Sends it, or says why not. Throws only what `send` throws. */
  async send(limits: TargetLimits, sending: Sending): Promise<Outcome> {
    const target = this.take(limits);
    target.inHand += 1;
    this.forget();
    try {
      return await this.pass(target, limits, sending);
    } finally {
      target.inHand -= 1;
    }
  }

  /**
   * What is worth telling of: targets that are not well first, then those with most in hand; idle ones that are well are left out, and so is one
   * whose origin is too long to be told: leases are renewed with the same message.
   */
  report(): TargetReport[] {
    return [...this.byOrigin.values()]
      .map(({ origin, breaker, places: { sending, queued } }) => ({
        origin,
        breaker: breaker.state,
        breakerNo: breaker.no,
        probesInMs: breaker.probesInMs,
        sending,
        queued,
      }))
      .filter(({ origin, breaker, sending, queued }) => originSchema.safeParse(origin).success && (breaker !== 'closed' || sending + queued > 0))
      .toSorted((a, b) => Number(a.breaker === 'closed') - Number(b.breaker === 'closed') || b.sending + b.queued - a.sending - a.queued)
      .slice(0, MAX_TARGET_REPORTS);
  }

  get size(): number {
    return this.byOrigin.size;
  }

  /** Ends timers and the connection. What is in flight ends as it will. */
  close(): void {
    for (const { breaker } of this.byOrigin.values()) breaker.shutdown();
    this.byOrigin.clear();
    this.bucket.close();
  }

  private async pass(target: Target, { ratePerSecond }: TargetLimits, { signals, whyNot, send }: Sending): Promise<Outcome> {
    const whyNotAtAll = whyNot();
    if (whyNotAtAll !== undefined) return { kind: 'not_sent', why: whyNotAtAll };
    const atOnce = target.breaker.block();
    if (atOnce) return blocked(target, atOnce);
    const place = await target.places.enter(signals);
    if (place.kind === 'busy') return blocked(target, { by: 'busy', why: 'is already being sent as much as it may be', inMs: soonMs() });
    if (place.kind !== 'place') return leftBy(target, place, whyNot);
    try {
      const left = ratePerSecond === null ? undefined : await this.awaitInstant(target, ratePerSecond, signals);
      if (left) return leftBy(target, left, whyNot);
      const why = whyNot();
      if (why !== undefined) return { kind: 'not_sent', why };
      const { breaker } = target;
      const block = breaker.block();
      if (block) return blocked(target, block);
      const end = breaker.begin();
      let outcome: Outcome | undefined;
      try {
        outcome = await send();
        return outcome;
      } finally {
        await end(outcome);
        const held = outcome && holdOf(outcome);
        if (held) target.waiting.sendBack(held);
      }
    } finally {
      place.giveBack();
    }
  }

  /** Waits, with the place in hand, until the rate allows it; undefined: now it does. */
  private async awaitInstant(target: Target, ratePerSecond: number, signals: readonly AbortSignal[]): Promise<Left | undefined> {
    const blockedBefore = target.breaker.block();
    if (blockedBefore) return { kind: 'sent_back', block: blockedBefore };
    const { isGranted, waitMs } = await target.rate.take({ ratePerSecond, maxWaitMs: WAITS_FOR_ITS_INSTANT_AT_MOST_MS });
    if (!isGranted) return { kind: 'sent_back', block: { by: 'rate', why: `is sent ${ratePerSecond} requests a second at most`, inMs: waitMs } };
    return waitMs === 0 ? undefined : target.waiting.wait<undefined>({ ms: waitMs, late: undefined, signals });
  }

  private take(limits: TargetLimits): Target {
    const { origin, breakerNo } = limits;
    const { concurrency, breakerResetMs, workers } = this.options;
    const max = limits.maxConcurrent ?? Math.max(1, Math.min(MOST_PLACES, Math.floor(concurrency / 4)));
    let target = this.byOrigin.get(origin);
    if (target === undefined) {
      const waiting = new Waiting();
      const rate = new Rate(origin, this.bucket, workers);
      target = { origin, breaker: new Breaker(breakerNo, breakerResetMs), places: new Places(max, waiting), rate, waiting, inHand: 0 };
    }
    if (target !== this.latest) {
      this.byOrigin.delete(origin);
      this.byOrigin.set(origin, target);
      this.latest = target;
    }
    target.places.resize(max);
    if (breakerNo > target.breaker.no) {
      target.breaker.shutdown();
      target.breaker = new Breaker(breakerNo, breakerResetMs);
    }
    return target;
  }

  /** Lets go of those used longest ago, but of none with something in hand. */
  private forget(): void {
    for (const [origin, target] of this.byOrigin) {
      if (this.byOrigin.size <= TARGETS_REMEMBERED) return;
      if (target.inHand > 0) continue;
      target.breaker.shutdown();
      this.byOrigin.delete(origin);
    }
  }
}

function blocked({ origin, breaker }: Target, { by, why, inMs }: Block): Outcome {
  return { kind: 'not_sent', why, blocked: { origin, by, inMs, breakerNo: breaker.no } };
}

function leftBy(target: Target, left: Left, whyNot: () => string | undefined): Outcome {
  return left.kind === 'sent_back' ? blocked(target, left.block) : { kind: 'not_sent', why: whyNot() ?? 'it was called away' };
}

/** A target that answered 429 or 503 and says until when it wants to be left alone. */
function holdOf(outcome: Outcome): Block | undefined {
  if (outcome.kind !== 'failed' || outcome.failure.retryAfterMs === undefined) return undefined;
  const status = statusOf(outcome.failure);
  if (status !== 429 && status !== 503) return undefined;
  return { by: 'held', why: `answered ${status} and asked to wait`, inMs: outcome.failure.retryAfterMs };
}
