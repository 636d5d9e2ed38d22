import { newId } from '../database/new-id.js';
import { outboxOf } from '../database/outbox.js';
import { change, rows, type Tx } from '../database/sql.js';

const BATCH = 1_000;

/** Marks what is due in paused workflows, so that the sweeper does not look at it again and again. Answers how many. */
export function holdRuns(tx: Tx): Promise<number> {
  return change(
    tx,
    `UPDATE runs SET is_held = true WHERE id IN (
       SELECT runs.id FROM runs JOIN workflows ON workflows.id = workflow_id
       WHERE workflows.status = 'paused' AND due_at <= onward_now() AND NOT is_held
       ORDER BY runs.id LIMIT $1 FOR UPDATE OF runs SKIP LOCKED)`,
    [BATCH],
  );
}

/** Lets go of what was held in workflows that are no longer paused, the oldest first and at most `limit`, each under a new claimId. */
export async function letGoOfRuns(tx: Tx, limit: number): Promise<number> {
  const held = await rows<{ id: string }>(
    tx,
    `SELECT runs.id FROM runs JOIN workflows ON workflows.id = workflow_id
     WHERE is_held AND workflows.status <> 'paused' ORDER BY due_at, runs.id LIMIT $1 FOR UPDATE OF runs SKIP LOCKED`,
    [limit],
  );
  if (held.length === 0) return 0;
  const freed = held.map(({ id }) => ({ id, claim_id: newId() }));
  await rows(
    tx,
    `UPDATE runs SET is_held = false, claim_id = new.claim_id, woken_at = clock_timestamp()
     FROM jsonb_to_recordset($1::jsonb) AS new (id uuid, claim_id uuid) WHERE runs.id = new.id`,
    [JSON.stringify(freed)],
  );
  outboxOf(tx).wakeUps.push(...freed.map(({ id, claim_id }) => ({ runId: id, claimId: claim_id, delayMs: 0 })));
  return held.length;
}
