import { newId } from '../database/new-id.js';
import { outboxOf } from '../database/outbox.js';
import { change, type Tx } from '../database/sql.js';
import { storableJson } from '../database/storable-json.js';
import type { Outcome } from '@onward/contracts/outcome';

/** Ends the waiting of parked, locked runs: each is due at its time, under a new claimId, and the queue is told. */
export async function letGo(tx: Tx, runs: readonly { id: string; dueAt: Date; delayMs: number }[], why: string): Promise<void> {
  if (runs.length === 0) return;
  const going = runs.map((run) => ({ ...run, claimId: newId() }));
  const resolution: Outcome = { kind: 'not_sent', why };
  await change(
    tx,
    `UPDATE runs SET resolution = $2, claim_id = new.claim_id, due_at = new.due_at, woken_at = clock_timestamp()
     FROM jsonb_to_recordset($1::jsonb) AS new (id uuid, claim_id uuid, due_at timestamptz) WHERE runs.id = new.id`,
    [JSON.stringify(going.map(({ id, claimId, dueAt }) => ({ id, claim_id: claimId, due_at: dueAt }))), storableJson(resolution)],
  );
  outboxOf(tx).wakeUps.push(...going.map(({ id, claimId, delayMs }) => ({ runId: id, claimId, delayMs })));
}
