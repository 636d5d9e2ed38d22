import { failed } from '@onward/contracts/outcome';
import { z } from 'zod';
import { tagSchema } from '../contacts/contact-input.js';
import type { Tx } from '../database/sql.js';
import type { EventBus } from '../events/event-bus.js';
import { fill, TemplateError } from '../templates/fill.js';
import type { Action, ActionResult, Step } from './action.js';

const configSchema = z.strictObject({
  /** A text that is filled for the contact. */
  tag: z.string().trim().min(1).max(1_000),
});
export type TagConfig = z.infer<typeof configSchema>;

type Change = { kind: 'changed' | 'unchanged' | 'contact_missing' };
type TagChange = Pick<Action<TagConfig>, 'type' | 'reentry'> & {
  change(tx: Tx, bus: EventBus, what: { contactId: string; tag: string; depth: number }): Promise<Change>;
};

/** What ADD_TAG and REMOVE_TAG share: the tag is a text filled for the contact, and only which way it changes differs. */
export function tagAction(bus: EventBus, { type, reentry, change }: TagChange): Action<TagConfig> {
  const execute = async ({ tx, contact, scope, config, depth }: Step<TagConfig>): Promise<ActionResult> => {
    if (contact === null) return { kind: 'outcome', outcome: failed('contact_missing', `${type} needs a contact, and the run has none`) };
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
    const { kind } = await change(tx, bus, { contactId: contact.id, tag: tag.data, depth });
    if (kind === 'contact_missing') return { kind: 'outcome', outcome: failed('contact_deleted', 'The contact was deleted'), input };
    return { kind: 'outcome', outcome: { kind: 'done', output: { tag: tag.data, changed: kind === 'changed' } }, input };
  };
  return { type, config: configSchema, needsContact: true, performedBy: 'backend', reentry, execute };
}
