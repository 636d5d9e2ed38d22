import { newId } from '../database/new-id.js';
import { outboxOf } from '../database/outbox.js';
import { rows, type Tx } from '../database/sql.js';
import { lockRun, saveCheckpoints } from '../runtime/checkpoint.js';
import { stateAfter, whereCan } from '../runtime/moves.js';
import { buryPoison, MAX_TAKEOVERS } from '../runtime/prepare-run.js';
import type { RuntimeKit } from '../runtime/runtime-kit.js';

const BATCH = 500;

/**
 * Takes back runs whose lease has lapsed (real time): pending again at the same step, under a new claimId, with nothing spent. A step that
 * lapsed too often is a poison step and its run is given up. Answers how many runs it took back.
 */
export async function lapseRuns(tx: Tx, kit: RuntimeKit): Promise<number> {
  const lapsed = await rows<{ id: string; takeovers: number }>(
    tx,
    `SELECT id, takeovers FROM runs WHERE ${whereCan('lapse')} AND lease_until < clock_timestamp() ORDER BY id LIMIT $1 FOR UPDATE SKIP LOCKED`,
    [BATCH],
  );
  const poison = lapsed.filter(({ takeovers }) => takeovers + 1 >= MAX_TAKEOVERS);
  for (const { id } of poison) {
    const checkpoint = await lockRun(tx, id);
    if (!checkpoint) continue;
    buryPoison(checkpoint, kit);
    await saveCheckpoints(tx, [checkpoint]);
  }
  const back = lapsed.filter(({ takeovers }) => takeovers + 1 < MAX_TAKEOVERS).map(({ id }) => ({ id, claim_id: newId() }));
  await rows(
    tx,
    `UPDATE runs SET state = '${stateAfter('running', 'lapse')}', due_at = onward_now(), lease_until = NULL, claim_id = new.claim_id, takeovers = takeovers + 1, woken_at = clock_timestamp()
     FROM jsonb_to_recordset($1::jsonb) AS new (id uuid, claim_id uuid) WHERE runs.id = new.id`,
    [JSON.stringify(back)],
  );
  outboxOf(tx).wakeUps.push(...back.map(({ id, claim_id }) => ({ runId: id, claimId: claim_id, delayMs: 0 })));
  return lapsed.length;
}
