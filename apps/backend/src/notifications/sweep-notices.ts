import type { DataSource } from 'typeorm';
import { selectList } from '../database/columns.js';
import { type Teller, transactAndTell } from '../database/outbox.js';
import { rows } from '../database/sql.js';
import type { Notice } from './notice.entity.js';
import { NOTICE_COLUMNS } from './notice-columns.js';
import { type NoticeSettings, sendNotice } from './send-notice.js';

const NOTICES_A_PASS = 200;

/**
 * Sends the notices that were written and not sent, oldest first, each in a transaction of its own so that one that cannot be sent hinders
 * no other. Any number of sweepers may pass at once. Answers how many were sent; throws the last fault, after all were tried.
 */
export async function sweepNotices(source: DataSource, teller: Teller, settings: NoticeSettings): Promise<number> {
  const unsent = await rows<{ id: string }>(source, 'SELECT id FROM notices WHERE sent_at IS NULL ORDER BY id LIMIT $1', [NOTICES_A_PASS]);
  let sent = 0;
  let fault: { error: unknown } | undefined;
  for (const { id } of unsent) {
    try {
      if (await sendOne(source, teller, settings, id)) sent += 1;
    } catch (error) {
      fault = { error };
    }
  }
  if (fault) throw fault.error;
  return sent;
}

/** Leaves a notice to whoever holds it. */
function sendOne(source: DataSource, teller: Teller, settings: NoticeSettings, id: string): Promise<boolean> {
  return transactAndTell(source, teller, async (tx) => {
    const [notice] = await rows<Notice>(tx, `SELECT ${selectList(NOTICE_COLUMNS)} FROM notices WHERE id = $1 AND sent_at IS NULL FOR UPDATE SKIP LOCKED`, [id]);
    if (notice) await sendNotice(tx, notice, settings);
    return notice !== undefined;
  });
}
