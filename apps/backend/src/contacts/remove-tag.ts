import { change, rows, type Tx } from '../database/sql.js';
import type { EventBus } from '../events/event-bus.js';
import { emitOwn } from '../events/emit-own.js';
import type { ContactChange } from './add-tag.js';

/** Takes a tag off a contact. Emits tag.removed when it carried the tag. */
export async function removeTag(
  tx: Tx,
  bus: EventBus,
  { contactId, tag, depth = 0 }: { contactId: string; tag: string; depth?: number },
): Promise<ContactChange> {
  const removed = await change(tx, 'DELETE FROM contact_tags WHERE contact_id = $1 AND tag = $2', [contactId, tag]);
  if (removed > 0) {
    await emitOwn(tx, bus, { type: 'tag.removed', contactId, payload: { tag }, depth });
    return { kind: 'changed' };
  }
  const [found] = await rows(tx, 'SELECT 1 FROM contacts WHERE id = $1', [contactId]);
  return { kind: found ? 'unchanged' : 'contact_missing' };
}
