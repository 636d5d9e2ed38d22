import { rows, type Tx } from '../../database/sql.js';
import type { EventContact } from '../../events/event-bus.js';

export type ListenedContact = EventContact & { tags: string[]; lists: string[] };

/** The contacts as they are now, with their tags and the names of their lists, by id; those that are gone are missing. */
export async function readEventContacts(tx: Tx, contactIds: readonly string[]): Promise<Map<string, ListenedContact>> {
  if (contactIds.length === 0) return new Map();
  const found = await rows<ListenedContact>(
    tx,
    `SELECT id, external_id AS "externalId", email, email_problem AS "emailProblem", attributes,
            ARRAY(SELECT tag FROM contact_tags WHERE contact_id = contacts.id ORDER BY tag) AS tags,
            ARRAY(SELECT lists.name FROM list_members JOIN lists ON lists.id = list_id WHERE contact_id = contacts.id ORDER BY 1) AS lists
     FROM contacts WHERE id = ANY ($1::uuid[])`,
    [contactIds],
  );
  return new Map(found.map((contact) => [contact.id, contact]));
}
