import type { StepContact } from '../actions/action.js';
import { prepared, type Tx } from '../database/sql.js';
import type { DataSource } from 'typeorm';

/** A contact as conditions and templates see it. */
export type ReadContact = StepContact & { tags: string[]; lists: string[] };

const STATEMENT = `
  SELECT id, external_id AS "externalId", email, email_problem AS "emailProblem", attributes,
         ARRAY(SELECT tag FROM contact_tags WHERE contact_id = contacts.id ORDER BY tag) AS tags,
         ARRAY(SELECT lists.name FROM list_members JOIN lists ON lists.id = list_id WHERE contact_id = contacts.id ORDER BY 1) AS lists
  FROM contacts WHERE id = ANY($1::uuid[])`;

/** Contacts as they are now, by id; those that are gone are missing. */
export async function readContacts(tx: Tx | DataSource, ids: readonly string[]): Promise<Map<string, ReadContact>> {
  if (ids.length === 0) return new Map();
  return new Map((await prepared<ReadContact>(tx, STATEMENT, [ids])).map((contact) => [contact.id, contact]));
}
