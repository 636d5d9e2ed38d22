import type { Json } from '@onward/contracts/json';
import type { DataSource } from 'typeorm';
import { rows, type Tx } from '../database/sql.js';
import { instantKey, type Page, pageOf, seek } from '../http/page.js';

export type ShownContact = {
  id: string;
  externalId: string | null;
  email: string | null;
  emailProblem: string | null;
  attributes: Record<string, Json>;
  tags: string[];
  lists: { id: string; name: string }[];
  createdAt: Date;
  updatedAt: Date;
};
export type ContactFilter = { email?: string | undefined; externalId?: string | undefined; tag?: string | undefined; list?: string | undefined };

const COLUMNS = `contacts.id, external_id AS "externalId", email, email_problem AS "emailProblem", attributes,
  ARRAY (SELECT tag FROM contact_tags WHERE contact_id = contacts.id ORDER BY tag) AS tags,
  (SELECT coalesce(json_agg(json_build_object('id', lists.id, 'name', lists.name) ORDER BY lists.name), '[]')
   FROM list_members JOIN lists ON lists.id = list_id WHERE contact_id = contacts.id) AS lists,
  contacts.created_at AS "createdAt", contacts.updated_at AS "updatedAt"`;

/** One contact with its tags and lists, or null. */
export async function readContact(source: Tx | DataSource, id: string): Promise<ShownContact | null> {
  const [contact] = await rows<ShownContact>(source, `SELECT ${COLUMNS} FROM contacts WHERE contacts.id = $1`, [id]);
  return contact ?? null;
}

/** Contacts that meet every filter given, the newest first. */
export async function listContacts(source: DataSource, filter: ContactFilter, page: Page): Promise<{ items: ShownContact[]; nextCursor: string | null }> {
  const place = seek(page, { key: 'contacts.created_at', id: 'contacts.id', kind: 'instant' }, 4);
  const found = await rows<ShownContact & { at: string }>(
    source,
    `SELECT ${COLUMNS}, ${instantKey('contacts.created_at')} AS at FROM contacts
     WHERE ($1::text IS NULL OR email = $1) AND ($2::text IS NULL OR external_id = $2)
       AND ($3::text IS NULL OR EXISTS (SELECT FROM contact_tags WHERE contact_id = contacts.id AND tag = $3))
       AND ($4::uuid IS NULL OR EXISTS (SELECT FROM list_members WHERE contact_id = contacts.id AND list_id = $4))
       AND ${place.where} ${place.ending}`,
    [filter.email ?? null, filter.externalId ?? null, filter.tag ?? null, filter.list ?? null, ...place.parameters],
  );
  return pageOf(
    found,
    page.limit,
    ({ at, id }) => [at, id],
    ({ at: _at, ...contact }) => contact,
  );
}
