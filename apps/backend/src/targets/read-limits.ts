import type { TargetLimits } from '@onward/contracts/targets';
import { rows, type Tx } from '../database/sql.js';

/** What a worker must keep to at this origin. One that was never named has no limits. */
export async function readLimits(tx: Tx, origin: string): Promise<TargetLimits> {
  const [found] = await rows<TargetLimits>(
    tx,
    `SELECT origin, rate_per_second AS "ratePerSecond", max_concurrent AS "maxConcurrent", breaker_no AS "breakerNo" FROM targets WHERE origin = $1`,
    [origin],
  );
  return found ?? { origin, ratePerSecond: null, maxConcurrent: null, breakerNo: 0 };
}
