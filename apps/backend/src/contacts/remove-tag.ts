import { prepared, type Tx } from '../database/sql.js';
import { emitOwn } from '../events/emit-own.js';
import type { EventBus } from '../events/event-bus.js';
import type { ContactChange } from './add-tag.js';

type Tagging = { contactId: string; tag: string; depth: number };

/** Takes a tag off a contact. Emits tag.removed when it carried the tag. */
export async function removeTag(
  tx: Tx,
  bus: EventBus,
  { contactId, tag, depth = 0 }: { contactId: string; tag: string; depth?: number },
): Promise<ContactChange> {
  const [change] = await removeTagPairs(tx, bus, [{ contactId, tag, depth }]);
  return change ?? { kind: 'contact_missing' };
}

/** Rows are locked in one order before they go, so that two of these never wait for each other. */
const REMOVE_PAIRS = `
  WITH asked AS (SELECT DISTINCT * FROM unnest($1::uuid[], $2::text[]) AS one (contact_id, tag)),
  held AS (
    SELECT contact_id, tag FROM contact_tags WHERE (contact_id, tag) IN (SELECT contact_id, tag FROM asked) ORDER BY contact_id, tag FOR UPDATE),
  removed AS (
    DELETE FROM contact_tags WHERE (contact_id, tag) IN (SELECT contact_id, tag FROM held) RETURNING contact_id, tag)
  SELECT contacts.id, coalesce((SELECT array_agg(tag) FROM removed WHERE contact_id = contacts.id), '{}') AS removed
  FROM contacts WHERE id IN (SELECT contact_id FROM asked)`;

/** The same for many, each contact with its own tag and depth; answered in their order. A pair that comes twice goes with the first. */
export async function removeTagPairs(tx: Tx, bus: EventBus, pairs: readonly Tagging[]): Promise<ContactChange[]> {
  const contactIds = pairs.map(({ contactId }) => contactId);
  const found = await prepared<{ id: string; removed: string[] }>(tx, REMOVE_PAIRS, [contactIds, pairs.map(({ tag }) => tag)]);
  const contacts = new Map(found.map(({ id, removed }) => [id, new Set(removed)]));
  const changes = pairs.map(({ contactId, tag }): ContactChange => {
    const removed = contacts.get(contactId);
    return { kind: removed === undefined ? 'contact_missing' : removed.delete(tag) ? 'changed' : 'unchanged' };
  });
  for (const [index, { contactId, tag, depth }] of pairs.entries()) {
    if (changes[index]?.kind === 'changed') await emitOwn(tx, bus, { type: 'tag.removed', contactId, payload: { tag }, depth });
  }
  return changes;
}
