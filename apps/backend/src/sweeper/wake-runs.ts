import { outboxOf, type PlannedWakeUp } from '../database/outbox.js';
import { rows, type Tx } from '../database/sql.js';
import { WAKE_AHEAD_MS } from '../runtime/rest-run.js';
import { WOKEN_BY_TIME } from '../targets/parked.js';

/**
 * The runs of one workflow that are due by then and were never told, the oldest first. Written as a range of (workflow, time), not as an equality: so
 * it is read in the order of runs_unwoken.
 */
export const unwokenOf = (workflow: string, aheadMs: string) => `
  woken_at IS NULL AND ${WOKEN_BY_TIME}
    AND (workflow_id, due_at) >= (${workflow}, '-infinity') AND (workflow_id, due_at) <= (${workflow}, onward_now() + ${aheadMs} * interval '1 millisecond')
  ORDER BY workflow_id, due_at`;

/**
 * How many wake-ups the queue has room for; `takesDelayed`: also ones for runs that are due soon but not yet; `shareOf`: no more than this of one
 * workflow.
 */
export type Room = { due: number; takesDelayed: boolean; shareOf: (workflowId: string) => number };

/**
 * Tells the queue of runs that are due, or will be soon, and of which it was never told: as many as it has room for, in turn by workflow,
 * of each the oldest first, so that the crowd of one workflow does not keep another's runs waiting. Answers how many.
 */
export async function wakeRuns(tx: Tx, { due: room, takesDelayed, shareOf }: Room): Promise<number> {
  const aheadMs = takesDelayed ? WAKE_AHEAD_MS : 0;
  let workflows = (await findWorkflows(tx, aheadMs)).map((id) => ({ id, mayTake: shareOf(id) }));
  const outbox = outboxOf(tx);
  let left = room;
  for (;;) {
    const going = workflows.filter(({ mayTake }) => mayTake > 0).slice(0, left);
    if (going.length < workflows.length) outbox.isRunLeft = true;
    if (going.length === 0) return room - left;
    const share = Math.min(Math.ceil(left / going.length), ...going.map(({ mayTake }) => mayTake));
    const woken = await wakeShares(
      tx,
      going.map(({ id }) => id),
      share,
      aheadMs,
    );
    outbox.wakeUps.push(...woken);
    left -= woken.length;
    const counts = new Map<string, number>();
    for (const { workflowId } of woken) counts.set(workflowId, (counts.get(workflowId) ?? 0) + 1);
    // Who had fewer than it might take has none left.
    workflows = going.filter(({ id }) => counts.get(id) === share).map(({ id, mayTake }) => ({ id, mayTake: mayTake - share }));
  }
}

/** $1: how far ahead, in ms. */
export const FIND_WORKFLOWS = `
  SELECT workflows.id FROM workflows CROSS JOIN LATERAL (SELECT due_at FROM runs WHERE ${unwokenOf('workflows.id', '$1')} LIMIT 1) AS oldest
  ORDER BY oldest.due_at, workflows.id`;

/** The workflows that have such runs, the one first whose oldest has waited longest. */
async function findWorkflows(tx: Tx, aheadMs: number): Promise<string[]> {
  return (await rows<{ id: string }>(tx, FIND_WORKFLOWS, [aheadMs])).map(({ id }) => id);
}

/** $1: workflows; $2: how many of each, a number known to the planner, or it would read all runs of a workflow; $3: how far ahead, in ms. */
export const WAKE_SHARES = `
  WITH shares AS MATERIALIZED (
    SELECT mine.id, mine.due_at, one.nth AS workflow_nth, one.id AS workflow_id FROM unnest($1::uuid[]) WITH ORDINALITY AS one (id, nth) CROSS JOIN LATERAL (
      SELECT id, due_at FROM runs WHERE ${unwokenOf('one.id', '$3')} LIMIT $2 FOR UPDATE SKIP LOCKED) AS mine),
  turns AS (SELECT id, workflow_nth, row_number() OVER (PARTITION BY workflow_id ORDER BY due_at, id) AS turn FROM shares),
  woken AS (
    UPDATE runs SET woken_at = clock_timestamp() FROM turns WHERE runs.id = turns.id
    RETURNING runs.id, claim_id, workflow_id, greatest(0, extract(epoch FROM due_at - onward_now()) * 1000)::float8 AS delay_ms, turn, workflow_nth)
  SELECT id AS "runId", claim_id AS "claimId", workflow_id AS "workflowId", delay_ms AS "delayMs" FROM woken ORDER BY turn, workflow_nth`;

/** Up to `share` runs of each workflow; the answer takes turns: the oldest of each, then the second of each. */
function wakeShares(tx: Tx, workflows: readonly string[], share: number, aheadMs: number): Promise<PlannedWakeUp[]> {
  return rows<PlannedWakeUp>(tx, WAKE_SHARES, [workflows, share, aheadMs]);
}
