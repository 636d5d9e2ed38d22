import { newId } from '../database/new-id.js';
import { outboxOf } from '../database/outbox.js';
import { rows, type Tx } from '../database/sql.js';
import { storableJson } from '../database/storable-json.js';
import type { Mailbox } from './message.entity.js';
import { domainOf } from './read-mailbox.js';

/** A message as it is written first: filled, addressed to one recipient, either of a run's step or of a notice. */
export type NewMessage = {
  runId: string | null;
  seq: number | null;
  noticeId: string | null;
  contactId: string | null;
  templateId: string | null;
  isTransactional: boolean;
  from: Mailbox;
  to: Mailbox;
  replyTo: Mailbox | null;
  subject: string;
  html: string | null;
  text: string | null;
  /** Set when the message is not to be sent: it is written as skipped, so that it can be seen why. */
  skipReason: string | null;
};

/**
 * Writes a message with its fixed Message-ID (RFC 5322 §3.6.4) and has the queue told of it after the commit. Answers its id, or null when
 * the step, or the notice for this address, has its message already.
 */
export async function insertMessage(tx: Tx, message: NewMessage): Promise<string | null> {
  const id = newId();
  const [written] = await rows<{ id: string }>(
    tx,
    `INSERT INTO messages (id, run_id, seq, notice_id, contact_id, template_id, is_transactional, state, message_id_header,
                           from_mailbox, to_mailbox, reply_to_mailbox, subject, html, text, skip_reason, ended_at, woken_at)
     VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16,
             CASE WHEN $8 = 'skipped' THEN clock_timestamp() END, CASE WHEN $8 = 'prepared' THEN clock_timestamp() END)
     ON CONFLICT DO NOTHING RETURNING id`,
    [
      id,
      message.runId,
      message.seq,
      message.noticeId,
      message.contactId,
      message.templateId,
      message.isTransactional,
      message.skipReason === null ? 'prepared' : 'skipped',
      `<${id}@${domainOf(message.from)}>`,
      storableJson(message.from),
      storableJson(message.to),
      message.replyTo && storableJson(message.replyTo),
      message.subject,
      message.html,
      message.text,
      message.skipReason,
    ],
  );
  if (written && message.skipReason === null) outboxOf(tx).mail.push({ messageId: id, try: 1 });
  return written?.id ?? null;
}
