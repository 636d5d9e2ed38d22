import { failed } from '@onward/contracts/outcome';
import { z } from 'zod';
import { moveToList as moveContact } from '../../contacts/move-to-list.js';
import type { EventBus } from '../../events/event-bus.js';
import { fill, TemplateError } from '../../templates/fill.js';
import type { Action, ActionResult, Step } from '../action.js';

/** A list goes by its id or its name; texts that are filled for the contact. */
const listText = z.string().trim().min(1).max(1_000);
const configSchema = z.strictObject({ from: listText.optional(), to: listText });
type Config = z.infer<typeof configSchema>;

/** Takes the contact off one list, when one is named, and puts it on another. */
export function moveToList(bus: EventBus): Action<Config> {
  return {
    type: 'MOVE_TO_LIST',
    config: configSchema,
    needsContact: true,
    performedBy: 'backend',
    reentry: 'Leaving and joining commit with the attempt; a second entry finds the contact moved and emits nothing.',
    execute: (step) => execute(step, bus),
  };
}

async function execute({ tx, contact, scope, config, depth }: Step<Config>, bus: EventBus): Promise<ActionResult> {
  if (contact === null) return { kind: 'outcome', outcome: failed('contact_missing', 'There is nobody to move: the run has no contact') };
  let from: string | null;
  let to: string;
  try {
    from = config.from === undefined ? null : fill(config.from, scope, 'text').trim();
    to = fill(config.to, scope, 'text').trim();
  } catch (error) {
    if (!(error instanceof TemplateError)) throw error;
    return { kind: 'outcome', outcome: failed('template_error', `The list could not be filled: ${error.message}`) };
  }
  const input = { from, to };
  if (to === '' || from === '')
    return { kind: 'outcome', outcome: failed('value_invalid', `The list to ${to === '' ? 'join' : 'leave'} came out empty`), input };
  const move = await moveContact(tx, bus, { contactId: contact.id, from, to, depth });
  switch (move.kind) {
    case 'contact_missing':
      return { kind: 'outcome', outcome: failed('contact_deleted', 'The contact was deleted'), input };
    case 'list_missing':
      return { kind: 'outcome', outcome: failed('list_missing', `There is no list "${move.list.slice(0, 200)}"`), input };
    case 'moved':
      return { kind: 'outcome', outcome: { kind: 'done', output: { from: move.from, to: move.to, left: move.left, joined: move.joined } }, input };
  }
}
