import type { Json } from '@onward/contracts/json';
import type { EventBus } from '../events/event-bus.js';
import { newId } from '../database/new-id.js';
import { prepared, type Tx } from '../database/sql.js';
import { storableJson } from '../database/storable-json.js';
import { instantKey } from '../http/page.js';
import { Problem } from '../http/problem.js';
import { emitForEach } from './emit-for-each.js';
import { type ContactInput, MAX_ATTRIBUTES } from './contact-input.js';
import { lockIdentities } from './lock-identities.js';
import { mergeAttributes } from './merge-attributes.js';

export type { ContactInput };

export type UpsertedContact = { id: string; externalId: string | null; email: string | null; emailProblem: string | null; attributes: Record<string, Json> };
/** `changedFields`: `externalId`, `email` and `attributes.<name>`, empty when nothing changed. */
export type Upsert = { contact: UpsertedContact; created: boolean; changedFields: string[] };

/** What one input came to: the contact as it then stood, or that it would have too many attributes, and nothing of the input was taken. */
export type Merge = ({ kind: 'merged' } & Upsert) | { kind: 'too_many_attributes' };

/** A contact as it stands while a batch is worked on. `age` sorts as created_at does; `fields` are those this batch has changed. */
export type Draft = UpsertedContact & { age: string; isNew: boolean; fields: Set<string> };

/** One contact; see upsertContacts. */
export async function upsertContact(tx: Tx, bus: EventBus, input: ContactInput, depth = 0): Promise<Upsert> {
  const [upsert] = await upsertContacts(tx, bus, [input], depth);
  if (!upsert) throw new Error('An upsert answers once for each contact');
  return upsert;
}

/**
 * As mergeContacts, and emits contact.created and contact.updated at the end, once a contact. Throws Problem, with nothing written, when a
 * contact would have too many attributes.
 */
export async function upsertContacts(tx: Tx, bus: EventBus, inputs: ContactInput[], depth = 0): Promise<Upsert[]> {
  const { merges, drafts } = await merge(tx, inputs, 'all or none');
  await emitChanges(tx, bus, drafts, depth);
  return merges.flatMap((one) => (one.kind === 'merged' ? [one] : []));
}

/**
 * Finds or makes the contacts that are meant and merges in what is given, in the order given; answers one for one. Emits nothing.
 *
 * Who is meant: with an external id, the contact that has it, else the one without any that has the e-mail given (it is adopted: it gets the
 * external id), else a new one. With an e-mail alone, the contact without external id that has it, else the oldest that has it, else a new one.
 * An e-mail given with an external id becomes the contact's; a new address has no known problem.
 *
 * Safe with any number at once, batches among them; five statements at most, however many there are. What changes nothing costs one read and takes no lock. `found`: what
 * `findContacts` gave for these inputs, or more, in the same transaction.
 */
export async function mergeContacts(tx: Tx, inputs: ContactInput[], found?: Draft[]): Promise<Merge[]> {
  return (await merge(tx, inputs, 'each alone', found)).merges;
}

/** `drafts` are the contacts that changed, in the order they were named; none of them is written when `all or none` finds one that may not be. */
async function merge(tx: Tx, inputs: ContactInput[], how: 'all or none' | 'each alone', found?: Draft[]): Promise<{ merges: Merge[]; drafts: Draft[] }> {
  if (inputs.length === 0) return { merges: [], drafts: [] };
  const asTheyAre = settle(found ?? (await findContacts(tx, inputs)), inputs);
  if (asTheyAre.drafts.length === 0) return checked(asTheyAre, how);

  await lockIdentities(tx, inputs);
  const settled = checked(settle(await findContacts(tx, inputs, 'for update'), inputs), how);
  await updateContacts(
    tx,
    settled.drafts.filter((draft) => !draft.isNew),
  );
  await insertContacts(
    tx,
    settled.drafts.filter((draft) => draft.isNew),
  );
  return settled;
}

type Settled = { merges: Merge[]; drafts: Draft[] };

function checked(settled: Settled, how: 'all or none' | 'each alone'): Settled {
  if (how === 'all or none' && settled.merges.some(({ kind }) => kind === 'too_many_attributes')) throw tooManyAttributes();
  return settled;
}

export function tooManyAttributes(): Problem {
  return new Problem('unprocessable', `A contact has at most ${MAX_ATTRIBUTES} attributes`);
}

/** The contacts that any of these may mean. Locked in the order of their ids. */
export async function findContacts(tx: Tx, inputs: readonly ContactInput[], how: 'as they are' | 'for update' = 'as they are'): Promise<Draft[]> {
  if (inputs.length === 0) return [];
  const externalIds = inputs.flatMap(({ externalId }) => externalId ?? []);
  const emails = inputs.flatMap(({ email }) => email ?? []);
  const found = await prepared<UpsertedContact & { age: string }>(
    tx,
    `SELECT id, external_id AS "externalId", email, email_problem AS "emailProblem", attributes, ${instantKey('created_at')} AS age
     FROM contacts WHERE external_id = ANY ($1::text[]) OR email = ANY ($2::text[])
     ORDER BY id ${how === 'for update' ? 'FOR NO KEY UPDATE' : ''}`,
    [externalIds, emails],
  );
  return found.map((contact) => ({ ...contact, isNew: false, fields: new Set() }));
}

/** Says who each input means and what it changes, by the rules above. Touches drafts only. */
function settle(known: Draft[], inputs: ContactInput[]): Settled {
  const byExternalId = new Map<string, Draft>();
  const byEmail = new Map<string, Draft[]>();
  const index = (draft: Draft): void => {
    if (draft.externalId !== null) byExternalId.set(draft.externalId, draft);
    if (draft.email === null) return;
    const sharing = byEmail.get(draft.email) ?? [];
    if (!sharing.includes(draft)) byEmail.set(draft.email, [...sharing, draft]);
  };
  for (const draft of known) index(draft);

  const drafts = new Set<Draft>();
  const merges = inputs.map((input): Merge => {
    const sharing = input.email === undefined ? [] : (byEmail.get(input.email) ?? []).filter(({ email }) => email === input.email);
    const alone = sharing.find(({ externalId }) => externalId === null);
    const meant = input.externalId === undefined ? (alone ?? oldestOf(sharing)) : (byExternalId.get(input.externalId) ?? alone);
    const draft = meant ?? newDraft(input);
    const changedFields = apply(draft, input);
    if (changedFields === null) return { kind: 'too_many_attributes' };
    index(draft);
    if (meant === undefined || changedFields.length > 0) drafts.add(draft);
    return { kind: 'merged', contact: contactOf(draft), created: meant === undefined, changedFields };
  });
  return { merges, drafts: [...drafts] };
}

function oldestOf(drafts: Draft[]): Draft | undefined {
  return drafts.toSorted((a, b) => (a.age === b.age ? (a.id < b.id ? -1 : 1) : a.age < b.age ? -1 : 1))[0];
}

function newDraft({ externalId, email }: ContactInput): Draft {
  if (externalId === undefined && email === undefined) throw new Error('A contact needs an external id or an e-mail');
  // New ones are younger than any that is there, and among themselves as old as their ids.
  return { id: newId(), externalId: null, email: null, emailProblem: null, attributes: {}, age: '~', isNew: true, fields: new Set() };
}

/** Answers what changed, or null, with the draft as it was, when the contact would have too many attributes. */
function apply(draft: Draft, { externalId, email, attributes }: ContactInput): string[] | null {
  const merged = mergeAttributes(draft.attributes, attributes ?? {});
  if (!merged) return null;
  const changed: string[] = [];
  if (externalId !== undefined && draft.externalId !== externalId) {
    draft.externalId = externalId;
    changed.push('externalId');
  }
  if (email !== undefined && draft.email !== email) {
    draft.email = email;
    draft.emailProblem = null;
    changed.push('email');
  }
  draft.attributes = merged.attributes;
  changed.push(...merged.changed.map((name) => `attributes.${name}`));
  for (const field of changed) draft.fields.add(field);
  return changed;
}

/** Before the new ones: an adoption takes its contact away from the e-mail alone. */
async function updateContacts(tx: Tx, drafts: Draft[]): Promise<void> {
  if (drafts.length === 0) return;
  await prepared(
    tx,
    `UPDATE contacts SET external_id = new.external_id, email = new.email, email_problem = new.email_problem, attributes = new.attributes, updated_at = now()
     FROM (SELECT * FROM unnest($1::uuid[], $2::text[], $3::text[], $4::text[], $5::jsonb[]) AS given (id, external_id, email, email_problem, attributes)) AS new
     WHERE contacts.id = new.id`,
    columnsOf(drafts),
  );
}

async function insertContacts(tx: Tx, drafts: Draft[]): Promise<void> {
  if (drafts.length === 0) return;
  await prepared(
    tx,
    `INSERT INTO contacts (id, external_id, email, email_problem, attributes)
     SELECT * FROM unnest($1::uuid[], $2::text[], $3::text[], $4::text[], $5::jsonb[])`,
    columnsOf(drafts),
  );
}

function columnsOf(drafts: Draft[]): unknown[] {
  return [
    drafts.map(({ id }) => id),
    drafts.map(({ externalId }) => externalId),
    drafts.map(({ email }) => email),
    drafts.map(({ emailProblem }) => emailProblem),
    drafts.map(({ attributes }) => storableJson(attributes)),
  ];
}

/** After every contact is written: what an event starts takes locks of its own, and contacts come first. */
async function emitChanges(tx: Tx, bus: EventBus, drafts: Draft[], depth: number): Promise<void> {
  await emitForEach(
    tx,
    bus,
    'contact.created',
    depth,
    drafts.filter(({ isNew }) => isNew),
    ({ id, externalId, email }) => [id, { externalId, email }],
  );
  await emitForEach(
    tx,
    bus,
    'contact.updated',
    depth,
    drafts.filter(({ isNew }) => !isNew),
    ({ id, fields }) => [id, { changed: [...fields] }],
  );
}

function contactOf({ id, externalId, email, emailProblem, attributes }: Draft): UpsertedContact {
  return { id, externalId, email, emailProblem, attributes };
}
