import type { Json } from '@onward/contracts/json';
import { failed } from '@onward/contracts/outcome';
import { z } from 'zod';
import { attributesSchema } from '../../contacts/contact-input.js';
import { updateContact as update } from '../../contacts/update-contact.js';
import type { EventBus } from '../../events/event-bus.js';
import type { Scope } from '../../runtime/scope.js';
import { fill, TemplateError } from '../../templates/fill.js';
import type { Action, ActionResult, Step } from '../action.js';

const configSchema = z.strictObject({
  /** Texts are filled for the contact, other values are taken as they are, null removes the attribute. */
  attributes: attributesSchema.refine((attributes) => Object.keys(attributes).length > 0, 'must name an attribute'),
});
type Config = z.infer<typeof configSchema>;

/** Sets attributes of the contact. Its identity, external id and e-mail, is not a step's to change. */
export function updateContact(bus: EventBus): Action<Config> {
  return {
    type: 'UPDATE_CONTACT',
    config: configSchema,
    needsContact: true,
    performedBy: 'backend',
    reentry: 'The attributes commit with the attempt; a second entry sets the same values, which changes and emits nothing.',
    execute: (step) => execute(step, bus),
  };
}

async function execute({ tx, contact, scope, config, depth }: Step<Config>, bus: EventBus): Promise<ActionResult> {
  if (contact === null) return { kind: 'outcome', outcome: failed('contact_missing', 'There is nobody to change: the run has no contact') };
  let attributes: Record<string, Json>;
  try {
    attributes = Object.fromEntries(Object.entries(config.attributes).map(([name, value]) => [name, fillTexts(value, scope)]));
  } catch (error) {
    if (!(error instanceof TemplateError)) throw error;
    return { kind: 'outcome', outcome: failed('template_error', `An attribute could not be filled: ${error.message}`) };
  }
  const input = { attributes };
  const updated = await update(tx, bus, { contactId: contact.id, patch: { attributes }, depth });
  switch (updated.kind) {
    case 'updated':
      return { kind: 'outcome', outcome: { kind: 'done', output: { changed: updated.changedFields } }, input };
    case 'contact_missing':
      return { kind: 'outcome', outcome: failed('contact_deleted', 'The contact was deleted'), input };
    case 'too_many_attributes':
      return { kind: 'outcome', outcome: failed('value_invalid', 'The contact would have too many attributes'), input };
    case 'identity_taken':
    case 'identity_missing':
      throw new Error('An update of attributes alone touched the identity of its contact');
  }
}

function fillTexts(value: Json, scope: Scope): Json {
  if (typeof value === 'string') return fill(value, scope, 'text');
  if (Array.isArray(value)) return value.map((member) => fillTexts(member, scope));
  if (value === null || typeof value !== 'object') return value;
  return Object.fromEntries(Object.entries(value).map(([name, member]) => [name, fillTexts(member, scope)]));
}
