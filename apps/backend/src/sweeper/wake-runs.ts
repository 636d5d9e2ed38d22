import { outboxOf } from '../database/outbox.js';
import { rows, type Tx } from '../database/sql.js';
import { WAKE_AHEAD_MS } from '../runtime/rest-run.js';
import { NOT_PARKED } from '../targets/parked.js';

export const WAKE_BATCH = 2_000;
/** A wake-up that still stands after this long, in ms, is taken for lost. */
const LOST_AFTER_MS = 4_000;

/**
 * Tells the queue of runs that are due or will be soon and of which it was not told, or of which the telling is taken for lost; the oldest
 * first. A run keeps its claimId, so the queue ignores the repeat while the first is there. Answers how many.
 */
export async function wakeRuns(tx: Tx): Promise<number> {
  const due = await rows<{ runId: string; claimId: string; delayMs: number }>(
    tx,
    `UPDATE runs SET woken_at = clock_timestamp() WHERE id IN (
       SELECT id FROM runs
       WHERE due_at <= onward_now() + $1 * interval '1 millisecond' AND NOT is_held AND ${NOT_PARKED}
         AND (woken_at IS NULL OR (woken_at < clock_timestamp() - $2 * interval '1 millisecond' AND due_at <= onward_now()))
       ORDER BY due_at, id LIMIT $3 FOR UPDATE SKIP LOCKED)
     RETURNING id AS "runId", claim_id AS "claimId", greatest(0, extract(epoch FROM due_at - onward_now()) * 1000)::float8 AS "delayMs"`,
    [WAKE_AHEAD_MS, LOST_AFTER_MS, WAKE_BATCH],
  );
  outboxOf(tx).wakeUps.push(...due);
  return due.length;
}
