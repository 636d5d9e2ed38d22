/**
 * The breaker of one target in one worker. Opossum counts and knows the states; what is fed to it is each send's end, not its beginning: only
 * sends that said something of the target count, and a target whose answers take longer than the window is noticed all the same.
 *
 * It opens when five or more sends of the window (10 s, or half the time to the probe when that is shorter) have ended and over half of them badly, lets one probe through once its time is up, and
 * closes only by a probe that went well. A probe that ends without a word (stopped, refused before it left) is followed by another one.
 * Not promised: anything across workers; what they find together stands in the backend's row.
 */
import type { Outcome } from '@onward/contracts/outcome';
import type { BreakerState } from '@onward/contracts/targets';
import CircuitBreaker from 'opossum';
import type { Block } from './waiting.js';

const WINDOW_MS = 10_000;
const ENDS_NEEDED = 5;
const BAD_PERCENT = 50;
const WORDS_SHOWN = 300;

export type Verdict = 'well' | 'bad' | 'silent';

/** What an outcome says of the target. A 4xx is an answer of a target that is well, 408, 425 and 429 too. */
export function verdictOf(outcome: Outcome): Verdict {
  if (outcome.kind === 'done') return 'well';
  if (outcome.kind !== 'failed') return 'silent';
  switch (outcome.failure.code) {
    case 'network':
    case 'timeout':
    case 'response_cut':
      return 'bad';
    case 'http_retryable':
      return (statusOf(outcome.failure) ?? 500) >= 500 ? 'bad' : 'well';
    case 'http_permanent':
    case 'redirect_refused':
    case 'response_too_large':
      return 'well';
    default:
      return 'silent';
  }
}

/** The HTTP status a failure was made of. */
export function statusOf({ detail }: { detail?: unknown }): number | undefined {
  if (typeof detail !== 'object' || detail === null || !('status' in detail)) return undefined;
  return typeof detail.status === 'number' ? detail.status : undefined;
}

export class Breaker {
  private readonly circuit: CircuitBreaker<[Verdict], void>;
  private probesAtMs = 0;
  private isProbing = false;
  private closings = 0;
  private lastFault = '';

  /** `resetMs`: from opening to the probe. */
  constructor(
    readonly no: number,
    resetMs: number,
  ) {
    this.circuit = new CircuitBreaker(
      async (verdict: Verdict) => {
        if (verdict === 'bad') throw new Error(verdict);
      },
      {
        timeout: false,
        resetTimeout: resetMs,
        volumeThreshold: ENDS_NEEDED,
        errorThresholdPercentage: BAD_PERCENT,
        // What opened it must be forgotten when it closes, although the window's own timer may be late.
        rollingCountTimeout: Math.min(WINDOW_MS, Math.floor(resetMs / 2)),
        rollingPercentilesEnabled: false,
        enableSnapshots: false,
      },
    );
    this.circuit.on('open', () => {
      this.probesAtMs = performance.now() + resetMs;
    });
    this.circuit.on('close', () => {
      this.closings += 1;
    });
  }

  get state(): BreakerState {
    if (this.circuit.opened) return 'open';
    return this.circuit.halfOpen ? 'half_open' : 'closed';
  }

  /** While it is open: when it lets a probe through, in ms from now. */
  get probesInMs(): number | null {
    return this.circuit.opened ? Math.max(0, Math.ceil(this.probesAtMs - performance.now())) : null;
  }

  /** Why nothing may be sent now; undefined when something may. */
  block(): Block | undefined {
    const why = `failed too often, at last with: ${this.lastFault}`;
    if (this.probesInMs !== null) return { by: 'breaker', why, inMs: this.probesInMs };
    return this.isProbing ? { by: 'breaker', why: `${why}; it is being tried at this moment`, inMs: soonMs() } : undefined;
  }

  /** Call it right before a send that `block` does not forbid, and what it answers when the send has ended (undefined: it threw). */
  begin(): (outcome: Outcome | undefined) => Promise<void> {
    const isProbe = this.circuit.halfOpen;
    const { closings } = this;
    if (isProbe) this.isProbing = true;
    return async (outcome) => {
      const verdict = outcome === undefined ? 'silent' : verdictOf(outcome);
      // A send that began before the breaker opened says nothing of what the target is like since then.
      const counts = isProbe ? this.circuit.halfOpen : this.circuit.closed && closings === this.closings;
      if (outcome?.kind === 'failed' && verdict === 'bad' && counts) this.lastFault = outcome.failure.message.slice(0, WORDS_SHOWN);
      if (verdict !== 'silent' && counts) await this.circuit.fire(verdict).catch(() => undefined);
      if (isProbe) this.isProbing = false;
    };
  }

  /** Ends its timers. What is in flight ends as it will and is not counted. */
  shutdown(): void {
    this.circuit.shutdown();
  }
}

/** From one to three seconds, so that those sent back together do not come back together. */
export function soonMs(): number {
  return 1_000 + Math.floor(Math.random() * 2_000);
}
