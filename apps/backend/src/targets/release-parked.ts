import { targetKey } from '@onward/contracts/targets';
import { change, rows, type Tx } from '../database/sql.js';
import { letGo } from './let-go.js';
import { type Batch, batchOf, TARGETS_AT_ONCE } from './batch.js';
import { PARKED, parkedThatMayGo } from './parked.js';

/** Runs let go in a second where the target has no rate of its own. */
const RATE_PER_SECOND = 20;
/** A pass plans this far ahead, in ms: longer than the time between two passes, so that the pace has no gaps. */
const AHEAD_MS = 5_000;
const MOST_AT_ONCE = 2_000;

/**
 * Lets go of the runs parked at targets that are free again, at the pace of each: their due times stand exactly one interval apart and go on
 * from the last one given, so that any number of sweepers keeps one pace. One batch of targets, of those after `after`; `count`: runs let go.
 */
export async function releaseParked(tx: Tx, after: string | null = null): Promise<Batch> {
  const free = await rows<{ id: string; origin: string; ratePerSecond: number | null; releasedUntil: Date | null; stateSince: Date; now: Date }>(
    tx,
    `SELECT id, origin, rate_per_second AS "ratePerSecond", released_until AS "releasedUntil", state_since AS "stateSince",
       date_trunc('milliseconds', onward_now()) + interval '1 millisecond' AS now
     FROM targets WHERE state = 'closed' AND ($1::uuid IS NULL OR id > $1)
       AND EXISTS (SELECT 1 FROM runs WHERE ${PARKED} AND wait_key = 'target:' || origin AND ${isItsTurn('state_since')})
     ORDER BY id LIMIT $2 FOR UPDATE SKIP LOCKED`,
    [after, TARGETS_AT_ONCE],
  );
  let count = 0;
  for (const { id, origin, ratePerSecond, releasedUntil, stateSince, now } of free) {
    const places = placesAhead(now.getTime(), releasedUntil?.getTime() ?? null, ratePerSecond ?? RATE_PER_SECOND);
    if (places.length === 0) continue;
    const parked = await rows<{ id: string; workflowId: string }>(
      tx,
      `SELECT runs.id, workflow_id AS "workflowId" ${parkedThatMayGo('$1')} AND ${isItsTurn('$3::timestamptz')} ORDER BY due_at, runs.id LIMIT $2 FOR UPDATE OF runs SKIP LOCKED`,
      [targetKey(origin), places.length, stateSince],
    );
    const going = parked.map((run, nth) => ({ ...run, dueAt: new Date(places[nth] ?? 0), delayMs: (places[nth] ?? 0) - now.getTime() }));
    const last = going.at(-1);
    if (!last) continue;
    await letGo(tx, going, 'the target is free again');
    await change(tx, 'UPDATE targets SET released_until = $2 WHERE id = $1', [id, last.dueAt]);
    count += going.length;
  }
  return batchOf(free, count);
}

/** What a run parked at this moment may have read of its target before that was closed, in ms. */
const OVERLAP_MS = 5_000;

/**
 * A condition on a run parked at a target that is closed since `closedSince` (an SQL expression). What the workers held back since then keeps its time; what
 * was parked before waited for the end of a block that is over, so its time counts no longer. When it was parked, its attempt ended.
 */
function isItsTurn(closedSince: string): string {
  return `(due_at IS NULL OR due_at <= onward_now() + ${AHEAD_MS} * interval '1 millisecond' OR NOT EXISTS (
    SELECT 1 FROM attempts WHERE run_id = runs.id AND attempts.seq = runs.seq AND attempts.n = runs.n
      AND attempts.ended_at > ${closedSince} + ${OVERLAP_MS} * interval '1 millisecond'))`;
}

/** The instants free within the next seconds, in ms: one interval after the last one given, or from now on. Never closer than the rate allows. */
export function placesAhead(nowMs: number, lastGivenMs: number | null, ratePerSecond: number): number[] {
  const stepMs = 1_000 / ratePerSecond;
  const firstMs = Math.max(nowMs, lastGivenMs === null ? nowMs : Math.ceil(lastGivenMs + stepMs));
  const count = Math.min(MOST_AT_ONCE, Math.max(0, Math.ceil((nowMs + AHEAD_MS - firstMs) / stepMs)));
  return Array.from({ length: count }, (_, nth) => Math.ceil(firstMs + nth * stepMs));
}
