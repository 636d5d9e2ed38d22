import { newId } from '../database/new-id.js';
import { planWakeUp } from '../database/outbox.js';
import { rows, type Tx } from '../database/sql.js';
import { lockRun } from '../runtime/checkpoint.js';
import { saveCheckpoints } from '../runtime/save-checkpoints.js';
import { endRun } from '../runtime/end-run.js';
import { leaveAttempt } from '../runtime/leave-attempt.js';
import { stateAfter, whereCan } from '../runtime/moves.js';
import { buryPoison, MAX_TAKEOVERS } from '../runtime/prepare-run.js';
import type { RuntimeKit } from '../runtime/runtime-kit.js';

export const LAPSE_BATCH = 500;

/**
 * Takes back runs whose lease has lapsed (real time): pending again at the same step, under a new claimId, with nothing spent. A step that
 * lapsed too often is a poison step and its run is given up; one whose cancel was asked for ends cancelled. Answers how many runs it took back.
 */
export async function lapseRuns(tx: Tx, kit: RuntimeKit): Promise<number> {
  const lapsed = await rows<{ id: string; workflowId: string; takeovers: number; isCancelAsked: boolean }>(
    tx,
    `SELECT id, workflow_id AS "workflowId", takeovers, is_cancel_asked AS "isCancelAsked" FROM runs
     WHERE ${whereCan('lapse')} AND lease_until < clock_timestamp() ORDER BY id LIMIT $1 FOR UPDATE SKIP LOCKED`,
    [LAPSE_BATCH],
  );
  const ending = lapsed.filter(({ takeovers, isCancelAsked }) => isCancelAsked || takeovers + 1 >= MAX_TAKEOVERS);
  for (const { id, isCancelAsked } of ending) {
    const checkpoint = await lockRun(tx, id);
    if (!checkpoint) continue;
    await leaveAttempt(checkpoint);
    if (isCancelAsked) endRun(checkpoint, { move: 'cancel', reason: 'cancelled by request' }, kit);
    else buryPoison(checkpoint, kit);
    await saveCheckpoints(tx, [checkpoint]);
  }
  const back = lapsed
    .filter((run) => !ending.includes(run))
    .map(({ id, workflowId }) => {
      const claimId = newId();
      return { id, claim_id: claimId, is_told: planWakeUp(tx, { runId: id, claimId, workflowId, delayMs: 0 }) };
    });
  await rows(
    tx,
    `UPDATE runs SET state = '${stateAfter('running', 'lapse')}', due_at = onward_now(), lease_until = NULL, hand_out_id = NULL, claim_id = new.claim_id, takeovers = takeovers + 1, woken_at = CASE WHEN is_told THEN clock_timestamp() END
     FROM jsonb_to_recordset($1::jsonb) AS new (id uuid, claim_id uuid, is_told boolean) WHERE runs.id = new.id`,
    [JSON.stringify(back)],
  );
  return lapsed.length;
}
