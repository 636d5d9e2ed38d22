import { newId } from '../database/new-id.js';
import { planWakeUp } from '../database/outbox.js';
import { change, rows, type Tx } from '../database/sql.js';
import { WOKEN_BY_TIME } from '../targets/parked.js';
import { unwokenOf } from './wake-runs.js';

const BATCH = 1_000;

/**
 * Marks what is due in paused workflows, so that the sweeper does not look at it again and again: what was never told, by workflow, and what was told, which
 * is never more than the queue holds. Answers how many.
 */
export async function holdRuns(tx: Tx): Promise<number> {
  return (await hold(tx, HOLD_UNWOKEN)) + (await hold(tx, HOLD_WOKEN));
}

/** $1: how many at most. */
const HOLD_UNWOKEN = `
  SELECT mine.id FROM workflows CROSS JOIN LATERAL (SELECT id FROM runs WHERE ${unwokenOf('workflows.id', '0')} LIMIT $1 FOR UPDATE SKIP LOCKED) AS mine
  WHERE workflows.status = 'paused' LIMIT $1`;
/** What was told is read first, by its own index, and not by way of the workflows, whose runs may be many. */
export const HOLD_WOKEN = `
  WITH told AS MATERIALIZED (
    SELECT id, workflow_id FROM runs
    WHERE woken_at > '-infinity' AND ${WOKEN_BY_TIME} AND due_at <= onward_now() AND EXISTS (SELECT FROM workflows WHERE status = 'paused'))
  SELECT id FROM runs
  WHERE id IN (SELECT told.id FROM told JOIN workflows ON workflows.id = told.workflow_id WHERE workflows.status = 'paused') AND woken_at IS NOT NULL AND ${WOKEN_BY_TIME}
  LIMIT $1 FOR UPDATE SKIP LOCKED`;

function hold(tx: Tx, due: string): Promise<number> {
  return change(tx, `UPDATE runs SET is_held = true WHERE id IN (${due})`, [BATCH]);
}

/** Runs of one workflow let go of in a second, however many backends sweep, and at most so many at once. */
const LET_GO_PER_SECOND = 50;
const LET_GO_AT_ONCE = 250;

/** Lets go of what was held in workflows that are no longer paused, at a pace, the oldest first, each under a new claimId. Answers how many. */
export async function letGoOfRuns(tx: Tx): Promise<number> {
  const workflows = await rows<{ id: string; share: number }>(
    tx,
    `SELECT id, least($2, floor($1 * coalesce(extract(epoch FROM clock_timestamp() - let_go_at), 5)))::int AS share
     FROM workflows WHERE status <> 'paused' AND EXISTS (SELECT 1 FROM runs WHERE workflow_id = workflows.id AND is_held)
     ORDER BY id FOR NO KEY UPDATE SKIP LOCKED`,
    [LET_GO_PER_SECOND, LET_GO_AT_ONCE],
  );
  let count = 0;
  for (const { id, share } of workflows) {
    if (share === 0) continue;
    count += await letGoOf(tx, id, share);
    await change(tx, 'UPDATE workflows SET let_go_at = clock_timestamp() WHERE id = $1', [id]);
  }
  return count;
}

async function letGoOf(tx: Tx, workflowId: string, share: number): Promise<number> {
  const held = await rows<{ id: string }>(tx, `SELECT id FROM runs WHERE workflow_id = $1 AND is_held ORDER BY due_at, id LIMIT $2 FOR UPDATE SKIP LOCKED`, [
    workflowId,
    share,
  ]);
  const freed = held.map(({ id }) => {
    const claimId = newId();
    return { id, claim_id: claimId, is_told: planWakeUp(tx, { runId: id, claimId, workflowId, delayMs: 0 }) };
  });
  if (freed.length === 0) return 0;
  await change(
    tx,
    `UPDATE runs SET is_held = false, claim_id = new.claim_id, woken_at = CASE WHEN is_told THEN clock_timestamp() END
     FROM jsonb_to_recordset($1::jsonb) AS new (id uuid, claim_id uuid, is_told boolean) WHERE runs.id = new.id`,
    [JSON.stringify(freed)],
  );
  return freed.length;
}
