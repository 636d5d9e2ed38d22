import type { ReplyOf, RequestOf } from '@onward/contracts/patterns';
import { selectList } from '../database/columns.js';
import { rows } from '../database/sql.js';
import type { Notice } from '../notifications/notice.entity.js';
import { NOTICE_COLUMNS } from '../notifications/notice-columns.js';
import { sendNotice } from '../notifications/send-notice.js';
import { type Checkpoint, refused, type StepRef } from './checkpoint.js';
import type { RuntimeKit } from './runtime-kit.js';

/** Sends the notice that the end of the run wrote. A repeat changes nothing, and what is never asked for the sweeper sends. */
export async function notifyFailed(
  checkpoint: Checkpoint,
  request: RequestOf<'automation.runtime.run.notify-failed'> & StepRef,
  kit: RuntimeKit,
): Promise<ReplyOf<'automation.runtime.run.notify-failed'>> {
  const { run, tx } = checkpoint;
  if (run.lastClaimId !== request.claimId || run.lastEpoch !== request.epoch) return refused(run.claimId === request.claimId ? 'stale_epoch' : 'stale_claim');
  const [notice] = await rows<Notice>(
    tx,
    `SELECT ${selectList(NOTICE_COLUMNS)} FROM notices WHERE run_id = $1 AND sent_at IS NULL ORDER BY seq DESC LIMIT 1 FOR UPDATE`,
    [run.id],
  );
  if (notice) await sendNotice(tx, notice, kit.settings);
  return { kind: 'notified', sent: notice !== undefined };
}
