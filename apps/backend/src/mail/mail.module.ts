import { Module } from '@nestjs/common';
import { MailResults } from './mail-results.js';
import { MailRpcController } from './mail.rpc-controller.js';
import { MessagesController } from './messages.controller.js';

/** Messages on their way out: what the gateway asks, what it announces, and what people see. The rules stand in functions that take `tx`. */
@Module({ controllers: [MessagesController, MailRpcController], providers: [MailResults] })
export class MailModule {}
