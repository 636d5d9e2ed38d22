import type { MailResult } from '@onward/contracts/mail';
import { MAX_UNCERTAIN_TRIES } from '@onward/contracts/mail';
import { change, rows, type Tx } from '../database/sql.js';
import { storableJson } from '../database/storable-json.js';
import { emitOwn } from '../events/emit-own.js';
import type { EventBus } from '../events/event-bus.js';
import { resolveWait } from '../runtime/resolve-wait.js';
import { mailKey } from './mail-key.js';
import { outcomeOf } from './mail-outcome.js';
import type { Message } from './message.entity.js';

/**
 * Writes how a message ended and tells the run that rests on it. The caller holds the locks of lock-message.ts and has decided that this
 * end counts. `message` is changed along with its row.
 */

/** It must not be sent. */
export async function skipMessage(tx: Tx, message: Message, reason: string): Promise<void> {
  Object.assign(message, { state: 'skipped', skipReason: reason, begunUntil: null });
  await change(tx, `UPDATE messages SET state = 'skipped', skip_reason = $2, begun_until = NULL, ended_at = clock_timestamp() WHERE id = $1`, [
    message.id,
    reason,
  ]);
  await tellRun(tx, message);
}

/** The mail server took it. */
export async function markSent(tx: Tx, bus: EventBus, message: Message, response: string): Promise<void> {
  Object.assign(message, { state: 'sent', response, failure: null, begunUntil: null });
  await change(tx, `UPDATE messages SET state = 'sent', response = $2, failure = NULL, begun_until = NULL, ended_at = clock_timestamp() WHERE id = $1`, [
    message.id,
    response,
  ]);
  await tellRun(tx, message);
  await emitOwn(tx, bus, {
    type: 'mail.sent',
    contactId: message.contactId,
    payload: { messageId: message.id, to: message.to.address, subject: message.subject, runId: message.runId, templateId: message.templateId },
    depth: await readDepth(tx, message.runId),
  });
}

/** The mail server refused it, or it could not be reached: it was certainly not delivered. An unusable address is noted at the contact. */
export async function markFailed(tx: Tx, message: Message, failure: Extract<MailResult, { kind: 'failed' }>['failure']): Promise<void> {
  Object.assign(message, { state: 'failed', failure, begunUntil: null });
  await change(tx, `UPDATE messages SET state = 'failed', failure = $2, begun_until = NULL, ended_at = clock_timestamp() WHERE id = $1`, [
    message.id,
    storableJson(failure),
  ]);
  if (failure.code === 'address_invalid' && message.contactId !== null) await noteBadAddress(tx, message.contactId, message.to.address, failure.message);
  await tellRun(tx, message);
}

/** It may have been delivered. Once it is prepared again, with the same Message-ID; the second time the run goes on, marked. */
export async function markUncertain(tx: Tx, message: Message, failure: Extract<MailResult, { kind: 'uncertain' }>['failure']): Promise<void> {
  const uncertainTries = message.uncertainTries + 1;
  const isRepeated = uncertainTries < MAX_UNCERTAIN_TRIES;
  Object.assign(message, { state: isRepeated ? 'prepared' : 'uncertain', try: message.try + (isRepeated ? 1 : 0), uncertainTries, failure, begunUntil: null });
  await change(
    tx,
    `UPDATE messages SET state = $2, try = $3, uncertain_tries = $4, failure = $5, begun_until = NULL, woken_at = NULL,
            ended_at = CASE WHEN $2 = 'uncertain' THEN clock_timestamp() END
      WHERE id = $1`,
    [message.id, message.state, message.try, uncertainTries, storableJson(failure)],
  );
  await tellRun(tx, message);
}

/** Notes why mail to this contact is pointless, while the address is still theirs. */
export async function noteBadAddress(tx: Tx, contactId: string, address: string, problem: string): Promise<void> {
  await change(tx, 'UPDATE contacts SET email_problem = $3, updated_at = now() WHERE id = $1 AND email = lower($2)', [
    contactId,
    address,
    problem.slice(0, 500),
  ]);
}

async function tellRun(tx: Tx, message: Message): Promise<void> {
  const outcome = outcomeOf(message);
  if (outcome !== null && message.runId !== null) await resolveWait(tx, { runId: message.runId, key: mailKey(message.id), outcome });
}

/** The runs between an outside cause and this mail. */
async function readDepth(tx: Tx, runId: string | null): Promise<number> {
  if (runId === null) return 0;
  const [context] = await rows<{ depth: number | null }>(tx, `SELECT (context ->> 'depth')::int AS depth FROM run_contexts WHERE run_id = $1`, [runId]);
  return (context?.depth ?? 0) + 1;
}
