import { storableJson } from '../database/storable-json.js';
import { change, type Tx } from '../database/sql.js';
import type { EventBus } from '../events/event-bus.js';
import { Problem } from '../http/problem.js';
import type { Resolved } from '../runs/attempt.entity.js';
import { lockMessage } from './lock-message.js';
import { markFailed, markSent } from './settle-message.js';

/**
 * A person has found out whether an uncertain message was delivered: it is sent or failed from now on, and who said so is kept. Its run
 * has gone on long ago, marked, and stays as it is. The same answer again changes nothing; another answer, or a message that is not uncertain,
 * is a conflict.
 */
export async function resolveMessage(tx: Tx, bus: EventBus, { id, delivered, by }: { id: string; delivered: boolean; by: string }): Promise<void> {
  const locked = await lockMessage(tx, id);
  if (!locked) throw new Problem('not_found', 'There is no such message');
  const { message } = locked;
  if (message.resolved?.happened === delivered) return;
  if (message.resolved) throw new Problem('conflict', `The message was resolved before, as ${message.resolved.happened ? 'delivered' : 'not delivered'}`);
  if (message.state !== 'uncertain') throw new Problem('conflict', `The message is ${message.state}; only one that is uncertain can be resolved`);
  if (delivered) await markSent(tx, bus, message, `${by} says that it was delivered`);
  else await markFailed(tx, message, { code: 'mail_uncertain', message: `${by} says that it was not delivered` });
  const resolved: Resolved = { happened: delivered, by, at: new Date().toISOString() };
  await change(tx, 'UPDATE messages SET resolved = $2 WHERE id = $1', [id, storableJson(resolved)]);
}
