import { addTagPairs } from '../../contacts/add-tag.js';
import type { EventBus } from '../../events/event-bus.js';
import type { Action } from '../action.js';
import { tagAction, type TagConfig } from '../change-tag.js';

/** Tags the contact. */
export function addTag(bus: EventBus): Action<TagConfig> {
  return tagAction(bus, {
    type: 'ADD_TAG',
    reentry: 'The tag commits with its attempt; a second entry finds the contact tagged and emits nothing.',
    changeMany: addTagPairs,
  });
}
