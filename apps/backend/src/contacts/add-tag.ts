import { rows, type Tx } from '../database/sql.js';
import type { EventBus } from '../events/event-bus.js';
import { changeTags, type ContactChange, type Tagging } from './change-tags.js';
import { emitForEach } from './emit-for-each.js';

/**
 * Contacts that get a tag are locked in one order, so that two of these never wait for each other, and one that is gone by then is missing from
 * the answer. A tag that is there already costs a look and no more.
 */
export const ADD_PAIRS = `
  WITH asked AS (SELECT DISTINCT * FROM unnest($1::uuid[], $2::text[]) AS one (contact_id, tag)),
  fresh AS (
    SELECT contact_id, tag FROM asked
    WHERE NOT EXISTS (SELECT 1 FROM contact_tags known WHERE known.contact_id = asked.contact_id AND known.tag = asked.tag)),
  held AS (SELECT id FROM contacts WHERE id IN (SELECT contact_id FROM fresh) ORDER BY id FOR KEY SHARE),
  added AS (
    INSERT INTO contact_tags (contact_id, tag) SELECT contact_id, tag FROM fresh JOIN held ON id = contact_id ORDER BY contact_id, tag
    ON CONFLICT DO NOTHING RETURNING contact_id, tag)
  SELECT id, coalesce((SELECT array_agg(tag) FROM added WHERE contact_id = id), '{}') AS changed FROM contacts
  WHERE id = ANY($1::uuid[]) AND (id IN (SELECT id FROM held) OR id NOT IN (SELECT contact_id FROM fresh))`;

/** Tags contacts, each with a tag of its own. Emits tag.added for each that did not carry its tag. */
export function addTagPairs(tx: Tx, bus: EventBus, asked: readonly Tagging[]): Promise<ContactChange[]> {
  return changeTags(tx, bus, asked, { statement: ADD_PAIRS, emits: 'tag.added' });
}

/** The same for one. */
export async function addTag(tx: Tx, bus: EventBus, { contactId, tag, depth = 0 }: { contactId: string; tag: string; depth?: number }): Promise<ContactChange> {
  return (await addTagPairs(tx, bus, [{ contactId, tag, depth }]))[0] as ContactChange;
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
