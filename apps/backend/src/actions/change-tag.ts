import { failed } from '@onward/contracts/outcome';
import { z } from 'zod';
import type { ContactChange, Tagging } from '../contacts/change-tags.js';
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

type TagChange = Pick<Action<TagConfig>, 'type' | 'reentry'> & {
  /** Answers in the order asked. */
  changeMany(tx: Tx, bus: EventBus, asked: readonly Tagging[]): Promise<ContactChange[]>;
};

/** What ADD_TAG and REMOVE_TAG share: the tag is a text filled for the contact, and only which way it changes differs. */
export function tagAction(bus: EventBus, { type, reentry, changeMany }: TagChange): Action<TagConfig> {
  const executeMany = async (tx: Tx, steps: readonly Step<TagConfig>[]): Promise<ActionResult[]> => {
    const read = steps.map((step) => readStep(step, type));
    const asked = read.flatMap((one) => ('tagging' in one ? [one.tagging] : []));
    const changes = (asked.length === 0 ? [] : await changeMany(tx, bus, asked)).values();
    return read.map((one): ActionResult => {
      if (!('tagging' in one)) return one;
      const change = changes.next().value;
      if (!change || change.kind === 'contact_missing')
        return { kind: 'outcome', outcome: failed('contact_deleted', 'The contact was deleted'), input: one.input };
      return { kind: 'outcome', outcome: { kind: 'done', output: { tag: one.tagging.tag, changed: change.kind === 'changed' } }, input: one.input };
    });
  };
  const execute = async (step: Step<TagConfig>): Promise<ActionResult> => (await executeMany(step.tx, [step]))[0] as ActionResult;
  return { type, config: configSchema, needsContact: true, readsOnlyForTexts: () => true, performedBy: 'backend', reentry, execute, executeMany };
}

/** What the step asks for, or what it comes to without asking. */
function readStep({ contactId, scope, config, depth }: Step<TagConfig>, type: string): ActionResult | { tagging: Tagging; input: { tag: string } } {
  if (contactId === null) return { kind: 'outcome', outcome: failed('contact_missing', `${type} needs a contact, and the run has none`) };
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
  return { tagging: { contactId, tag: tag.data, depth }, input };
}
