import type { RunState } from '@onward/contracts/patterns';
import { rows, type Tx } from '../database/sql.js';
import { Message } from './message.entity.js';

/** What a message must know of its run: where it stands and whether it is to end. */
export type MessageRun = { id: string; state: RunState; seq: number; waitKey: string | null; isCancelAsked: boolean };

/** `run` is null for a mail of no run, and when the run is no longer there. */
export type LockedMessage = { message: Message; run: MessageRun | null };

/**
 * Locks a message for a change: its run's row first, by id alone, then its own, as everything that settles a wait does. Whoever holds
 * both sees the run and the message as they are now and is the only one to change them. Answers null when there is no such message.
 */
export async function lockMessage(tx: Tx, messageId: string): Promise<LockedMessage | null> {
  const [run] = await rows<MessageRun>(
    tx,
    `SELECT id, state, seq, wait_key AS "waitKey", is_cancel_asked AS "isCancelAsked"
       FROM runs WHERE id = (SELECT run_id FROM messages WHERE id = $1) FOR UPDATE`,
    [messageId],
  );
  const message = await tx.findOne(Message, { where: { id: messageId }, lock: { mode: 'pessimistic_write' } });
  return message && { message, run: run ?? null };
}
