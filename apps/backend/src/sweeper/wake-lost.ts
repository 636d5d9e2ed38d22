import type { DataSource } from 'typeorm';
import { outboxOf, type PlannedWakeUp, type Teller, transactAndTell } from '../database/outbox.js';
import { rows, type Tx } from '../database/sql.js';
import { WOKEN_BY_TIME } from '../targets/parked.js';

/** The queue was told longer ago than this, in ms, and the run still stands: then the queue is asked for the entry. */
const LOST_AFTER_MS = 4_000;
const PAGE = 2_000;
/** No more are looked at in one pass; what the queue holds, and so what can be lost, is bounded far below. */
const MAX_PAGES = 20;

const TOLD = `woken_at IS NOT NULL AND ${WOKEN_BY_TIME} AND woken_at < clock_timestamp() - $1 * interval '1 millisecond' AND due_at <= onward_now()`;

/** `standing`: which of these claims have an entry on the queue, in whatever state; null when the queue cannot say. */
export type AskedQueue = Teller & { standing(claimIds: readonly string[]): Promise<ReadonlySet<string> | null> };

/**
 * Tells the queue again of due runs whose wake-up is lost. That a run still stands is no sign of loss while a crowd is worked off, so the
 * queue itself is asked: lost is what it has no entry of. A run keeps its claimId, so a repeat is ignored while the first is there.
 * Nothing is done while the queue is away. Answers how many.
 */
export async function wakeLost(source: DataSource, queue: AskedQueue): Promise<number> {
  let count = 0;
  let after = { wokenAt: '-infinity', runId: '00000000-0000-0000-0000-000000000000' };
  for (let page = 0; page < MAX_PAGES; page += 1) {
    const told = await readTold(source, after);
    const last = told.at(-1);
    if (!last) break;
    const standing = await queue.standing(told.map(({ claimId }) => claimId));
    if (standing === null) break;
    const lost = told.filter(({ claimId }) => !standing.has(claimId));
    if (lost.length > 0) count += await transactAndTell(source, queue, (tx) => wakeAgain(tx, lost));
    if (told.length < PAGE) break;
    after = last;
  }
  return count;
}

type Told = { runId: string; claimId: string; wokenAt: string };

/** $1: told so long ago, in ms; $2 and $3: the place to go on from; $4: how many. */
export const READ_TOLD = `
  SELECT id AS "runId", claim_id AS "claimId", woken_at::text AS "wokenAt" FROM runs
  WHERE ${TOLD} AND (woken_at, id) > ($2::timestamptz, $3::uuid) ORDER BY woken_at, id LIMIT $4`;

function readTold(source: DataSource, after: Omit<Told, 'claimId'>): Promise<Told[]> {
  return rows<Told>(source, READ_TOLD, [LOST_AFTER_MS, after.wokenAt, after.runId, PAGE]);
}

/** Looks at each run anew under its lock: meanwhile it may have been claimed, or woken by another sweeper. */
async function wakeAgain(tx: Tx, lost: readonly Told[]): Promise<number> {
  const woken = await rows<PlannedWakeUp>(
    tx,
    `UPDATE runs SET woken_at = clock_timestamp() WHERE id IN (
       SELECT runs.id FROM runs JOIN jsonb_to_recordset($2::jsonb) AS lost ("runId" uuid, "claimId" uuid) ON runs.id = "runId" AND claim_id = "claimId"
       WHERE ${TOLD} ORDER BY runs.id FOR UPDATE OF runs SKIP LOCKED)
     RETURNING id AS "runId", claim_id AS "claimId", workflow_id AS "workflowId", 0 AS "delayMs"`,
    [LOST_AFTER_MS, JSON.stringify(lost)],
  );
  outboxOf(tx).wakeUps.push(...woken);
  return woken.length;
}
