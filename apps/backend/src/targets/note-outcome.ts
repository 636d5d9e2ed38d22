import type { Failure, Outcome } from '@onward/contracts/outcome';
import { rows, type Tx } from '../database/sql.js';
import { changeTarget, later, type TargetChange } from './change-target.js';
import { lockTarget } from './lock-target.js';
import type { Target } from './target.entity.js';

type Said = { runId: string; outcome: Outcome; now: Date; resetMs: number };

/** Does a recorded send say something of its target? Most say nothing; what a probe came to always does. */
export function speaksOfTarget(outcome: Outcome): boolean {
  return wishOf(outcome) !== null || (outcome.kind === 'not_sent' && outcome.blocked?.by === 'breaker');
}

/**
 * Writes what a recorded send says of its target to the target's row, which is locked: asked for one that speaks of it, or whose run is
 * somebody's probe. `resetMs`: how long a target rests after a probe that failed.
 */
export async function noteOutcome(tx: Tx, said: Said & { seq: number }): Promise<void> {
  const { runId, seq } = said;
  const [found] = await rows<{ url: string }>(tx, `SELECT request ->> 'url' AS url FROM outbound_requests WHERE run_id = $1 AND seq = $2`, [runId, seq]);
  const target = found && (await lockTarget(tx, { origin: new URL(found.url).origin }));
  const to = target && changeAfter(target, said);
  if (to) await changeTarget(tx, target.id, to);
}

/** The transition an outcome makes, if any. Pure. */
export function changeAfter(target: Pick<Target, 'state' | 'blockedUntil' | 'probeRunId' | 'breakerNo'>, said: Said): TargetChange | null {
  const { runId, outcome, now, resetMs } = said;
  const { state } = target;
  if (state === 'paused') return null;
  const wish = wishOf(outcome);
  const blocked = outcome.kind === 'not_sent' ? outcome.blocked : undefined;
  if (state === 'half_open' && target.probeRunId === runId) {
    // A probe that its worker could not send now has come to no answer; the next one is picked when it could be sent.
    if (blocked) return { state: 'open', until: later(now, blocked.inMs) };
    const found = findingOf(outcome);
    if (found === 'well') return { state: 'closed' };
    // What was not sent goes out when its run is taken up again; any other end without a word of the target is over, and the next probe may go.
    if (outcome.kind === 'not_sent') return null;
    if (found === 'nothing' || outcome.kind !== 'failed') return { state: 'open', until: now };
    return { state: 'open', until: later(now, Math.max(resetMs, wish ?? 0)), why: wish === null ? outcome.failure.message : asked(outcome.failure, now, wish) };
  }
  if (wish !== null && outcome.kind === 'failed') {
    const until = later(now, wish);
    if (state === 'open' && target.blockedUntil !== null && target.blockedUntil >= until) return null;
    return { state: 'open', until, why: asked(outcome.failure, now, wish) };
  }
  if (state === 'closed' && blocked?.by === 'breaker' && blocked.breakerNo === target.breakerNo && outcome.kind === 'not_sent') {
    return { state: 'open', until: later(now, blocked.inMs), why: outcome.why };
  }
  return null;
}

/** How long the target itself asked to be left alone (Retry-After with 429 or 503, RFC 9110 §10.2.3), in ms. */
function wishOf(outcome: Outcome): number | null {
  if (outcome.kind !== 'failed') return null;
  const { retryAfterMs = 0 } = outcome.failure;
  const status = statusOf(outcome.failure);
  return retryAfterMs > 0 && (status === 429 || status === 503) ? retryAfterMs : null;
}

/** Is the target well by what a probe came to? An answer below 500 says so whatever it refuses, except 429; what never reached it says nothing. */
function findingOf(outcome: Outcome): 'well' | 'ill' | 'nothing' {
  if (outcome.kind === 'done') return 'well';
  if (outcome.kind !== 'failed') return 'nothing';
  const { code } = outcome.failure;
  if (code === 'network' || code === 'timeout' || code === 'response_cut') return 'ill';
  const status = statusOf(outcome.failure);
  if (status === null) return code === 'http_retryable' ? 'ill' : 'nothing';
  return status < 500 && status !== 429 ? 'well' : 'ill';
}

function statusOf({ detail }: Failure): number | null {
  const status = typeof detail === 'object' && detail !== null && !Array.isArray(detail) ? detail['status'] : null;
  return typeof status === 'number' ? status : null;
}

function asked(failure: Failure, now: Date, wishMs: number): string {
  return `answered ${statusOf(failure)}, asked to wait until ${later(now, wishMs).toISOString()}`;
}
