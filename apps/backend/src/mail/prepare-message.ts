import { outboxOf } from '../database/outbox.js';
import { change, type Tx } from '../database/sql.js';
import type { Scope } from '../runtime/scope.js';
import type { Template } from '../templates/template.entity.js';
import { fill, fillMail, TemplateError } from '../templates/fill.js';
import { insertMessage } from './insert-message.js';
import { type Mailbox, Message } from './message.entity.js';
import { readMailbox } from './read-mailbox.js';
import { askGate } from './suppression-gate.js';

export type StepOfMessage = { runId: string; seq: number };
export type Preparation = StepOfMessage & { contactId: string; address: string; template: Template; scope: Scope; from: Mailbox };

/**
 * Fills a template for one contact and writes the message of a run's step, once: a step that is entered again finds its message. It is
 * written as skipped when the suppression gate says no, so that it is seen; the gate is asked again right before SMTP.
 * Throws TemplateError for a template that cannot be filled. The caller holds the run's lock.
 */
export async function prepareMessage(tx: Tx, { runId, seq, contactId, address, template, scope, from }: Preparation): Promise<Message> {
  const { isTransactional } = template;
  const filled = fillMail(template, scope);
  await insertMessage(tx, {
    runId,
    seq,
    noticeId: null,
    contactId,
    templateId: template.id,
    isTransactional,
    from,
    to: { name: '', address },
    replyTo: fillReplyTo(template.replyTo, scope),
    ...filled,
    skipReason: await askGate(tx, { address, contactId, isTransactional }),
  });
  return tx.findOneByOrFail(Message, { runId, seq });
}

/**
 * The message this step has written before, or null. One that failed is made ready for another try, as it was, with the same Message-ID:
 * the step is entered again because its retry is due.
 */
export async function reopenMessage(tx: Tx, { runId, seq }: StepOfMessage): Promise<Message | null> {
  const message = await tx.findOne(Message, { where: { runId, seq }, lock: { mode: 'pessimistic_write' } });
  if (message?.state !== 'failed') return message;
  await change(tx, `UPDATE messages SET state = 'prepared', try = try + 1, woken_at = clock_timestamp(), ended_at = NULL WHERE id = $1`, [message.id]);
  outboxOf(tx).mail.push({ messageId: message.id, try: message.try + 1 });
  return Object.assign(message, { state: 'prepared', try: message.try + 1, endedAt: null } satisfies Partial<Message>);
}

function fillReplyTo(replyTo: string | null, scope: Scope): Mailbox | null {
  const filled = replyTo === null ? '' : fill(replyTo, scope, 'header').trim();
  if (filled === '') return null;
  const mailbox = readMailbox(filled);
  if (mailbox === null) throw new TemplateError('The reply address is not a mail address');
  return mailbox;
}
