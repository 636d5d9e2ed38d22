import { prepared, rows, type Tx } from '../database/sql.js';
import type { EventBus } from '../events/event-bus.js';
import { emitForEach } from './emit-for-each.js';

/** Whether the contact is another than before; `contact_missing` when there is none with this id. */
export type ContactChange = { kind: 'changed' | 'unchanged' | 'contact_missing' };

/** Tags a contact. Emits tag.added when it did not carry the tag. */
export async function addTag(tx: Tx, bus: EventBus, { contactId, tag, depth = 0 }: { contactId: string; tag: string; depth?: number }): Promise<ContactChange> {
  const [change] = await addTagPairs(tx, bus, [{ contactId, tag, depth }]);
  return change ?? { kind: 'contact_missing' };
}

/** The same for many, each contact with its own tag and depth; answered in their order. A pair that comes twice is new to the first. */
export async function addTagPairs(tx: Tx, bus: EventBus, pairs: readonly { contactId: string; tag: string; depth: number }[]): Promise<ContactChange[]> {
  const contactIds = pairs.map(({ contactId }) => contactId);
  const found = await prepared<{ id: string; added: string[] }>(tx, ADD_PAIRS, [contactIds, pairs.map(({ tag }) => tag)]);
  const contacts = new Map(found.map(({ id, added }) => [id, new Set(added)]));
  const changes = pairs.map(({ contactId, tag }): ContactChange => {
    const added = contacts.get(contactId);
    return { kind: added === undefined ? 'contact_missing' : added.delete(tag) ? 'changed' : 'unchanged' };
  });
  const news = pairs.filter((_, index) => changes[index]?.kind === 'changed');
  for (const depth of new Set(news.map((pair) => pair.depth))) {
    await emitForEach(
      tx,
      bus,
      'tag.added',
      depth,
      news.filter((pair) => pair.depth === depth),
      ({ contactId, tag }) => [contactId, { tag }],
    );
  }
  return changes;
}

/**
 * Contacts that get a tag are locked in one order, so that two of these never wait for each other, and one that is gone by then is missing from
 * the answer. A tag that is there already costs a look and no more.
 */
const ADD_PAIRS = `
  WITH asked AS (SELECT DISTINCT * FROM unnest($1::uuid[], $2::text[]) AS one (contact_id, tag)),
  fresh AS (
    SELECT contact_id, tag FROM asked
    WHERE NOT EXISTS (SELECT 1 FROM contact_tags known WHERE known.contact_id = asked.contact_id AND known.tag = asked.tag)),
  held AS (SELECT id FROM contacts WHERE id IN (SELECT contact_id FROM fresh) ORDER BY id FOR KEY SHARE),
  added AS (
    INSERT INTO contact_tags (contact_id, tag) SELECT contact_id, tag FROM fresh JOIN held ON id = contact_id ORDER BY contact_id, tag
    ON CONFLICT DO NOTHING RETURNING contact_id, tag)
  SELECT id, coalesce((SELECT array_agg(tag) FROM added WHERE contact_id = id), '{}') AS added FROM contacts
  WHERE id IN (SELECT contact_id FROM asked) AND (id IN (SELECT id FROM held) OR id NOT IN (SELECT contact_id FROM fresh))`;

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
