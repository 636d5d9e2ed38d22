import type { StepContact } from '../actions/action.js';
import { prepared, type Tx } from '../database/sql.js';
import type { DataSource } from 'typeorm';

/** A contact as conditions and templates see it. */
export type ReadContact = StepContact & { tags: string[]; lists: string[] };

const CONTACTS = `
  SELECT id, external_id AS "externalId", email, email_problem AS "emailProblem", attributes,
         ARRAY(SELECT tag FROM contact_tags WHERE contact_id = contacts.id ORDER BY tag) AS tags,
         ARRAY(SELECT lists.name FROM list_members JOIN lists ON lists.id = list_id WHERE contact_id = contacts.id ORDER BY 1) AS lists
  FROM contacts`;
const BY_IDS = `${CONTACTS} WHERE id = ANY($1::uuid[])`;
const OF_RUNS = `${CONTACTS} WHERE id IN (SELECT contact_id FROM runs WHERE id = ANY($1::uuid[]))`;

/** Contacts as they are now, by id; those that are gone are missing. */
export async function readContacts(tx: Tx | DataSource, ids: readonly string[]): Promise<Map<string, ReadContact>> {
  if (ids.length === 0) return new Map();
  return byId(await prepared<ReadContact>(tx, BY_IDS, [ids]));
}

/** The contacts of runs, by their own ids. */
export async function readContactsOf(tx: Tx, runIds: readonly string[]): Promise<Map<string, ReadContact>> {
  return byId(await prepared<ReadContact>(tx, OF_RUNS, [runIds]));
}

function byId(contacts: readonly ReadContact[]): Map<string, ReadContact> {
  return new Map(contacts.map((contact) => [contact.id, contact]));
}
