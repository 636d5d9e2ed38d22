import type { Tx } from '../database/sql.js';
import type { EventBus } from '../events/event-bus.js';
import { changeTags, type ContactChange, type Tagging } from './change-tags.js';

/** Rows are locked in one order before they go, so that two of these never wait for each other. */
export const REMOVE_PAIRS = `
  WITH asked AS (SELECT DISTINCT * FROM unnest($1::uuid[], $2::text[]) AS one (contact_id, tag)),
  held AS (
    SELECT contact_id, tag FROM contact_tags WHERE (contact_id, tag) IN (SELECT contact_id, tag FROM asked) ORDER BY contact_id, tag FOR UPDATE),
  removed AS (
    DELETE FROM contact_tags WHERE (contact_id, tag) IN (SELECT contact_id, tag FROM held) RETURNING contact_id, tag)
  SELECT contacts.id, coalesce((SELECT array_agg(tag) FROM removed WHERE contact_id = contacts.id), '{}') AS changed
  FROM contacts WHERE id = ANY($1::uuid[])`;

/** Takes tags off contacts, each a tag of its own. Emits tag.removed for each that carried its tag. */
export function removeTagPairs(tx: Tx, bus: EventBus, asked: readonly Tagging[]): Promise<ContactChange[]> {
  return changeTags(tx, bus, asked, { statement: REMOVE_PAIRS, emits: 'tag.removed' });
}

/** The same for one. */
export async function removeTag(
  tx: Tx,
  bus: EventBus,
  { contactId, tag, depth = 0 }: { contactId: string; tag: string; depth?: number },
): Promise<ContactChange> {
  return (await removeTagPairs(tx, bus, [{ contactId, tag, depth }]))[0] as ContactChange;
}
