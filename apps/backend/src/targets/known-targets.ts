import type { TargetLimits } from '@onward/contracts/targets';
import type { Statement } from '../database/sql.js';
import { limitsOf } from './enter-target.js';
import type { FoundTarget } from './find-targets.js';

/** So many a backend remembers; with more of them it asks for some again. */
const MAX_KNOWN = 10_000;

/**
 * The closed targets that this backend has met, so that a request can be handed over without asking first. What is known is never taken for true by
 * itself: whoever goes by it has it checked with his last writes (`checking`), and where it no longer holds nothing is committed, and he asks.
 */
export class KnownTargets {
  private readonly known = new Map<string, TargetLimits>();

  /** The same object until it is noted otherwise. */
  get(origin: string): TargetLimits | undefined {
    return this.known.get(origin);
  }

  /** Keeps what was found, or forgets: only a target that is closed may be met unasked. */
  note(origin: string, found: FoundTarget | null): void {
    this.known.delete(origin);
    if (found?.state !== 'closed') return;
    this.known.set(origin, limitsOf(found));
    if (this.known.size <= MAX_KNOWN) return;
    const oldest = this.known.keys().next();
    if (!oldest.done) this.known.delete(oldest.value);
  }
}

/** The statement that fails unless each of these targets is closed and has these limits. It reads why as a boolean, since it cannot raise an error of its own. */
export function checking(met: readonly TargetLimits[]): Statement {
  return { statement: CHECK, parameters: [JSON.stringify([...new Set(met)])] };
}

const CHECK = `
  SELECT (CASE WHEN count(targets.id) = count(*) THEN 'true' ELSE 'A target is not as it was met before' END)::boolean AS holds
  FROM jsonb_to_recordset($1::jsonb) AS met (origin text, "ratePerSecond" double precision, "maxConcurrent" integer, "breakerNo" integer)
  LEFT JOIN targets ON targets.origin = met.origin AND state = 'closed' AND breaker_no = "breakerNo"
    AND rate_per_second IS NOT DISTINCT FROM "ratePerSecond" AND max_concurrent IS NOT DISTINCT FROM "maxConcurrent"`;
