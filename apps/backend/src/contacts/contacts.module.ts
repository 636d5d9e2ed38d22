import { Module } from '@nestjs/common';
import { SuppressionsController } from '../mail/suppressions.controller.js';
import { ContactsController } from './contacts.controller.js';
import { ListsController } from './lists.controller.js';
import { TagsController } from './tags.controller.js';

/** The people journeys are about: contacts, tags, lists, and the addresses that must not be written to. The rules stand in functions that take `tx`. */
@Module({ controllers: [ContactsController, TagsController, ListsController, SuppressionsController] })
export class ContactsModule {}
