import { Global, Module } from '@nestjs/common';
import { EventBus } from '../events/event-bus.js';
import { senderOf } from '../mail/read-mailbox.js';
import { SETTINGS, type Settings } from '../settings.js';
import type { Action } from './action.js';
import { ACTIONS, ActionCatalogue } from './action-catalogue.js';
import { addTag } from './add-tag/add-tag.action.js';
import { forwardRequest } from './forward-request/forward-request.action.js';
import { moveToList } from './move-to-list/move-to-list.action.js';
import { removeTag } from './remove-tag/remove-tag.action.js';
import { sendMail } from './send-mail/send-mail.action.js';
import { updateContact } from './update-contact/update-contact.action.js';

/** The one list of actions. A new action is its folder and its line here. */
function listActions(settings: Settings, bus: EventBus): Action<unknown>[] {
  return [sendMail({ from: senderOf(settings.mailFrom) }), forwardRequest(settings), addTag(bus), removeTag(bus), moveToList(bus), updateContact(bus)];
}

@Global()
@Module({ providers: [{ provide: ACTIONS, useFactory: listActions, inject: [SETTINGS, EventBus] }, ActionCatalogue], exports: [ActionCatalogue] })
export class ActionsModule {}
