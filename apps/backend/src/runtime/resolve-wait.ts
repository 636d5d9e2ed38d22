import type { Outcome } from '@onward/contracts/outcome';
import { newId } from '../database/new-id.js';
import { planWakeUp } from '../database/outbox.js';
import { change, rows, type Tx } from '../database/sql.js';
import { storableJson } from '../database/storable-json.js';
import type { Run } from '../runs/run.entity.js';

/**
 * What a run waited for has come: writes the resolution once and makes the run due now. Locks the run row by id alone and looks at what it
 * waits for only in a later statement: one statement that did both could miss a wait that is being stored at the same time.
 * A run that has recorded its key but not yet come to rest keeps the resolution, and `run.wait` finds it.
 * Answers whether this was the one that resolved it.
 */
export async function resolveWait(tx: Tx, { runId, key, outcome }: { runId: string; key: string; outcome: Outcome }): Promise<boolean> {
  await rows(tx, 'SELECT 1 FROM runs WHERE id = $1 FOR UPDATE', [runId]);
  const [run] = await rows<Pick<Run, 'workflowId' | 'state' | 'waitKey' | 'resolution'>>(
    tx,
    'SELECT workflow_id AS "workflowId", state, wait_key AS "waitKey", resolution FROM runs WHERE id = $1',
    [runId],
  );
  if (!run || run.waitKey !== key || run.resolution !== null) return false;
  if (run.state !== 'waiting') {
    return (await change(tx, 'UPDATE runs SET resolution = $2 WHERE id = $1', [runId, storableJson(outcome)])) === 1;
  }
  const claimId = newId();
  const isTold = planWakeUp(tx, { runId, claimId, workflowId: run.workflowId, delayMs: 0 });
  await change(
    tx,
    `UPDATE runs SET resolution = $2, claim_id = $3, due_at = onward_now(), woken_at = CASE WHEN $4 THEN clock_timestamp() END
     WHERE id = $1 AND resolution IS NULL`,
    [runId, storableJson(outcome), claimId, isTold],
  );
  return true;
}
