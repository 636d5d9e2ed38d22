import { newId } from '../database/new-id.js';
import { planWakeUp } from '../database/outbox.js';
import { change, type Tx } from '../database/sql.js';
import { storableJson } from '../database/storable-json.js';
import type { Outcome } from '@onward/contracts/outcome';

/** Ends the waiting of parked, locked runs: each is due at its time, under a new claimId, and the queue is told. */
export async function letGo(tx: Tx, runs: readonly { id: string; workflowId: string; dueAt: Date; delayMs: number }[], why: string): Promise<void> {
  if (runs.length === 0) return;
  const resolution: Outcome = { kind: 'not_sent', why };
  const going = runs.map(({ id, workflowId, dueAt, delayMs }) => {
    const claimId = newId();
    return { id, claim_id: claimId, due_at: dueAt, is_told: planWakeUp(tx, { runId: id, claimId, workflowId, delayMs }) };
  });
  await change(
    tx,
    `UPDATE runs SET resolution = $2, claim_id = new.claim_id, due_at = new.due_at, woken_at = CASE WHEN new.is_told THEN clock_timestamp() END
     FROM jsonb_to_recordset($1::jsonb) AS new (id uuid, claim_id uuid, due_at timestamptz, is_told boolean) WHERE runs.id = new.id`,
    [JSON.stringify(going), storableJson(resolution)],
  );
}
