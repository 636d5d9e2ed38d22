import type { PatternReply, PatternRequest } from '@onward/contracts/frame';
import { change, type Tx } from '../database/sql.js';
import type { EventBus } from '../events/event-bus.js';
import { lockMessage } from './lock-message.js';
import type { Message } from './message.entity.js';
import { markFailed, markSent, markUncertain } from './settle-message.js';

type Reply = PatternReply<'mail.message.end'>;

/**
 * Stores the result of a try. The first result told for a (message, try) counts; every other is answered `already` and changes nothing.
 *
 * A try whose time ran out without a result can still be told of: until its repeat has begun the late result settles the message, and
 * the repeat falls away. When there was no repeat left, the late result still corrects the message, though its run has gone on.
 */
export async function endMessage(tx: Tx, bus: EventBus, { messageId, try: told, result }: PatternRequest<'mail.message.end'>): Promise<Reply> {
  const locked = await lockMessage(tx, messageId);
  if (!locked) return { kind: 'already', state: 'unknown' };
  const { message } = locked;
  const counts = howItCounts(message, told);
  if (counts === 'not') return { kind: 'already', state: message.state };

  await change(tx, 'UPDATE messages SET result_try = $2 WHERE id = $1', [messageId, told]);
  switch (result.kind) {
    case 'sent':
      await markSent(tx, bus, message, result.response);
      break;
    case 'failed':
      await markFailed(tx, message, result.failure);
      break;
    case 'uncertain':
      // A late "uncertain" is what the lapse has said already.
      if (counts === 'now') await markUncertain(tx, message, result.failure);
      break;
  }
  return { kind: 'stored' };
}

function howItCounts(message: Message, told: number): 'now' | 'late' | 'not' {
  if (told <= message.resultTry) return 'not';
  switch (message.state) {
    case 'begun':
      return told === message.try ? 'now' : 'not';
    case 'prepared':
      return told === message.try - 1 ? 'late' : 'not';
    case 'uncertain':
      return told === message.try ? 'late' : 'not';
    case 'sent':
    case 'failed':
    case 'skipped':
      return 'not';
  }
}
