import type { TargetLimits } from '@onward/contracts/targets';
import { prepared, type Tx } from '../database/sql.js';
import type { Target } from './target.entity.js';

/** A target as a run meets it; `isOver`: the time for which it is blocked has passed. */
export type FoundTarget = TargetLimits & Pick<Target, 'id' | 'state' | 'why' | 'blockedUntil' | 'probeRunId'> & { isOver: boolean };

const STATEMENT = `
  SELECT origin, rate_per_second AS "ratePerSecond", max_concurrent AS "maxConcurrent", breaker_no AS "breakerNo", id, state, why,
    blocked_until AS "blockedUntil", probe_run_id AS "probeRunId", coalesce(blocked_until <= onward_now(), false) AS "isOver"
  FROM targets WHERE origin = ANY($1::text[])`;

/** Targets by origin; those never met are missing. */
export async function findTargets(tx: Tx, origins: readonly string[]): Promise<Map<string, FoundTarget>> {
  return new Map((await prepared<FoundTarget>(tx, STATEMENT, [origins])).map((target) => [target.origin, target]));
}
