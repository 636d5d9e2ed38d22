import type { PatternReply, PatternRequest } from '@onward/contracts/frame';
import { BEGUN_FOR_MS } from '@onward/contracts/mail';
import { change, type Tx } from '../database/sql.js';
import { isEnded } from '../runtime/moves.js';
import { type LockedMessage, lockMessage } from './lock-message.js';
import { mailKey } from './mail-key.js';
import type { Message } from './message.entity.js';
import { skipMessage } from './settle-message.js';
import { askGate } from './suppression-gate.js';

type Reply = PatternReply<'mail.message.begin'>;

/**
 * Asked by the mail gateway right before SMTP: may this try begin? One transaction asks the run and the suppression gate again and records
 * the try, so of any number of askers exactly one is told to send.
 *
 * `already`: this try has begun or ended, or a later one exists; whoever is told so must not send. The call that began the try, sent again
 * because its answer was lost, is told to send again: it has the same `callId`. What is not promised: that the run still rests on the mail;
 * the step may be recorded a moment later than its mail is begun, so a run that stands on the step is enough.
 */
export async function beginMessage(tx: Tx, request: PatternRequest<'mail.message.begin'>): Promise<Reply> {
  const locked = await lockMessage(tx, request.messageId);
  if (!locked) return { kind: 'skip', reason: 'unknown_message' };
  const { message } = locked;
  if (message.state === 'begun' && message.try === request.try && message.begunBy === request.callId) return send(message);
  if (message.state !== 'prepared' || message.try !== request.try) return { kind: 'already', state: message.state };

  const reason =
    reasonOfRun(locked) ?? (await askGate(tx, { address: message.to.address, contactId: message.contactId, isTransactional: message.isTransactional }));
  if (reason !== null) {
    await skipMessage(tx, message, reason);
    return { kind: 'skip', reason };
  }

  await change(tx, `UPDATE messages SET state = 'begun', begun_by = $3, begun_until = clock_timestamp() + $2 * interval '1 millisecond' WHERE id = $1`, [
    message.id,
    BEGUN_FOR_MS,
    request.callId,
  ]);
  return send(message);
}

function send({ id, try: tryNumber, messageIdHeader, from, to, replyTo, subject, html, text }: Message): Reply {
  return { kind: 'send', message: { messageId: id, try: tryNumber, messageIdHeader, from, to, replyTo, subject, html, text } };
}

/** Why the run no longer wants its mail, or null. */
function reasonOfRun({ message, run }: LockedMessage): string | null {
  if (message.runId === null) return null;
  if (run === null) return 'run_gone';
  if (run.state === 'cancelled' || run.isCancelAsked) return 'run_cancelled';
  if (isEnded(run.state) || run.seq !== message.seq) return 'run_moved_on';
  return run.state === 'waiting' && run.waitKey !== mailKey(message.id) ? 'run_moved_on' : null;
}
