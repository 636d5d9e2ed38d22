import { removeTagPairs } from '../../contacts/remove-tag.js';
import type { EventBus } from '../../events/event-bus.js';
import type { Action } from '../action.js';
import { tagAction, type TagConfig } from '../change-tag.js';

/** Takes a tag off the contact. */
export function removeTag(bus: EventBus): Action<TagConfig> {
  return tagAction(bus, {
    type: 'REMOVE_TAG',
    reentry: 'The tag goes with its attempt; a second entry finds the contact without it and emits nothing.',
    changeMany: removeTagPairs,
  });
}
