import type { Json } from '@onward/contracts/json';
import { change, rows, type Tx } from '../database/sql.js';
import { storableJson } from '../database/storable-json.js';
import { emitOwn } from '../events/emit-own.js';
import type { EventBus } from '../events/event-bus.js';
import { lockIdentities } from './lock-identities.js';
import { mergeAttributes } from './merge-attributes.js';
import type { UpsertedContact } from './upsert-contact.js';

/** What is to change; what is left out stays. Null takes an identity away, and null as an attribute removes it. */
export type ContactPatch = { externalId?: string | null | undefined; email?: string | null | undefined; attributes?: Record<string, Json> | undefined };

export type ContactUpdate =
  | { kind: 'updated'; contact: UpsertedContact; changedFields: string[] }
  | { kind: 'contact_missing' }
  /** Another contact has this identity. */
  | { kind: 'identity_taken'; field: 'externalId' | 'email' }
  | { kind: 'identity_missing' }
  | { kind: 'too_many_attributes' };

/** Changes a contact that is known by its id. Emits contact.updated when something is different afterwards. */
export async function updateContact(
  tx: Tx,
  bus: EventBus,
  { contactId, patch, depth = 0 }: { contactId: string; patch: ContactPatch; depth?: number },
): Promise<ContactUpdate> {
  const isIdentityTouched = patch.externalId !== undefined || patch.email !== undefined;
  if (isIdentityTouched) await lockForIdentity(tx, contactId, patch);
  const [contact] = await rows<UpsertedContact>(
    tx,
    'SELECT id, external_id AS "externalId", email, email_problem AS "emailProblem", attributes FROM contacts WHERE id = $1 FOR NO KEY UPDATE',
    [contactId],
  );
  if (!contact) return { kind: 'contact_missing' };

  const externalId = patch.externalId === undefined ? contact.externalId : patch.externalId;
  const email = patch.email === undefined ? contact.email : patch.email;
  if (externalId === null && email === null) return { kind: 'identity_missing' };
  const merged = mergeAttributes(contact.attributes, patch.attributes ?? {});
  if (!merged) return { kind: 'too_many_attributes' };
  const changedFields = [
    ...(externalId === contact.externalId ? [] : ['externalId']),
    ...(email === contact.email ? [] : ['email']),
    ...merged.changed.map((name) => `attributes.${name}`),
  ];
  const updated: UpsertedContact = {
    id: contactId,
    externalId,
    email,
    emailProblem: email === contact.email ? contact.emailProblem : null,
    attributes: merged.attributes,
  };
  if (changedFields.length === 0) return { kind: 'updated', contact: updated, changedFields };

  if (isIdentityTouched) {
    const taken = await findTaken(tx, updated);
    if (taken) return { kind: 'identity_taken', field: taken };
  }
  await change(tx, 'UPDATE contacts SET external_id = $2, email = $3, email_problem = $4, attributes = $5, updated_at = now() WHERE id = $1', [
    contactId,
    externalId,
    email,
    updated.emailProblem,
    storableJson(updated.attributes),
  ]);
  await emitOwn(tx, bus, { type: 'contact.updated', contactId, payload: { changed: changedFields }, depth });
  return { kind: 'updated', contact: updated, changedFields };
}

/** The identities it gets, and those it has: taking its external id away makes its e-mail one that must be unique. */
async function lockForIdentity(tx: Tx, contactId: string, patch: ContactPatch): Promise<void> {
  const [present] = await rows<{ email: string | null }>(tx, 'SELECT email FROM contacts WHERE id = $1', [contactId]);
  const emails = [patch.email, present?.email].flatMap((email) => email ?? []);
  await lockIdentities(tx, [{ externalId: patch.externalId ?? undefined }, ...emails.map((email) => ({ email }))]);
}

async function findTaken(tx: Tx, { id, externalId, email }: UpsertedContact): Promise<'externalId' | 'email' | null> {
  if (externalId !== null) {
    const others = await rows(tx, 'SELECT 1 FROM contacts WHERE external_id = $2 AND id <> $1', [id, externalId]);
    return others.length > 0 ? 'externalId' : null;
  }
  const others = await rows(tx, 'SELECT 1 FROM contacts WHERE email = $2 AND external_id IS NULL AND id <> $1', [id, email]);
  return others.length > 0 ? 'email' : null;
}
