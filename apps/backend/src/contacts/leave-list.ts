import { change, type Tx } from '../database/sql.js';
import { emitOwn } from '../events/emit-own.js';
import type { EventBus } from '../events/event-bus.js';
import type { FoundList } from './find-list.js';

/** Takes a contact off a list and answers whether it was on it; emits list.left when it was. */
export async function leaveList(
  tx: Tx,
  bus: EventBus,
  { list, contactId, depth = 0 }: { list: FoundList; contactId: string; depth?: number },
): Promise<boolean> {
  const left = await change(tx, 'DELETE FROM list_members WHERE list_id = $1 AND contact_id = $2', [list.id, contactId]);
  if (left === 0) return false;
  await emitOwn(tx, bus, { type: 'list.left', contactId, payload: { listId: list.id, list: list.name }, depth });
  return true;
}
