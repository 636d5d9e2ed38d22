import { failed } from '@onward/contracts/outcome';
import { z } from 'zod';
import { addTag as addTagTo } from '../../contacts/add-tag.js';
import { tagSchema } from '../../contacts/contact-input.js';
import type { EventBus } from '../../events/event-bus.js';
import { fill, TemplateError } from '../../templates/fill.js';
import type { Action, ActionResult, Step } from '../action.js';

const configSchema = z.strictObject({
  /** A text that is filled for the contact. */
  tag: z.string().trim().min(1).max(1_000),
});
type Config = z.infer<typeof configSchema>;

/** Tags the contact. */
export function addTag(bus: EventBus): Action<Config> {
  return {
    type: 'ADD_TAG',
    config: configSchema,
    needsContact: true,
    performedBy: 'backend',
    reentry: 'The tag commits with its attempt; a second entry finds the contact tagged and emits nothing.',
    execute: (step) => execute(step, bus),
  };
}

async function execute({ tx, contact, scope, config, depth }: Step<Config>, bus: EventBus): Promise<ActionResult> {
  if (contact === null) return { kind: 'outcome', outcome: failed('contact_missing', 'There is nobody to tag: the run has no contact') };
  let filled: string;
  try {
    filled = fill(config.tag, scope, 'text');
  } catch (error) {
    if (!(error instanceof TemplateError)) throw error;
    return { kind: 'outcome', outcome: failed('template_error', `The tag could not be filled: ${error.message}`) };
  }
  const tag = tagSchema.safeParse(filled);
  const input = { tag: filled.slice(0, 1_000) };
  if (!tag.success) return { kind: 'outcome', outcome: failed('value_invalid', `"${filled.slice(0, 200)}" cannot be a tag`), input };
  const { kind } = await addTagTo(tx, bus, { contactId: contact.id, tag: tag.data, depth });
  if (kind === 'contact_missing') return { kind: 'outcome', outcome: failed('contact_deleted', 'The contact was deleted'), input };
  return { kind: 'outcome', outcome: { kind: 'done', output: { tag: tag.data, changed: kind === 'changed' } }, input };
}
