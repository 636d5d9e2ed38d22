import { rows, type Tx } from '../database/sql.js';
import type { EventBus } from '../events/event-bus.js';
import { emitForEach } from './emit-for-each.js';

/** Whether the contact is another than before; `contact_missing` when there is none with this id. */
export type ContactChange = { kind: 'changed' | 'unchanged' | 'contact_missing' };

/** Tags a contact. Emits tag.added when it did not carry the tag. */
export async function addTag(tx: Tx, bus: EventBus, { contactId, tag, depth = 0 }: { contactId: string; tag: string; depth?: number }): Promise<ContactChange> {
  const [found] = await rows(tx, 'SELECT 1 FROM contacts WHERE id = $1 FOR KEY SHARE', [contactId]);
  if (!found) return { kind: 'contact_missing' };
  const added = await addTags(tx, bus, { contactIds: [contactId], tags: [tag], depth });
  return { kind: added.length > 0 ? 'changed' : 'unchanged' };
}

/** Adds every tag to every contact, in one order, and answers what is new. The contacts exist: the caller has written or locked them. */
export async function addTags(
  tx: Tx,
  bus: EventBus,
  { contactIds, tags, depth = 0 }: { contactIds: string[]; tags: string[]; depth?: number },
): Promise<{ contactId: string; tag: string }[]> {
  if (contactIds.length === 0 || tags.length === 0) return [];
  const added = await rows<{ contactId: string; tag: string }>(
    tx,
    `INSERT INTO contact_tags (contact_id, tag)
     SELECT contact_id, tag FROM unnest($1::uuid[]) AS contact_id, unnest($2::text[]) AS tag ORDER BY contact_id, tag
     ON CONFLICT DO NOTHING RETURNING contact_id AS "contactId", tag`,
    [contactIds, tags],
  );
  await emitForEach(tx, bus, 'tag.added', depth, added, ({ contactId, tag }) => [contactId, { tag }]);
  return added;
}
