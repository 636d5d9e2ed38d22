import { Controller, Inject } from '@nestjs/common';
import { MessagePattern, Payload } from '@nestjs/microservices';
import type { PatternReply, PatternRequest } from '@onward/contracts/frame';
import { FailPoints } from '@onward/wire/fail-points';
import type { Logger } from 'pino';
import { DataSource } from 'typeorm';
import { transactAndTell } from '../database/outbox.js';
import { EventBus } from '../events/event-bus.js';
import { LOGGER } from '../operations/logger.js';
import { Queues } from '../operations/queues.js';
import { inCatalogue } from '../runtime/rpc-failure.js';
import { beginMessage } from './begin-message.js';
import { endMessage } from './end-message.js';

/** What the mail gateway calls, beside the 13 patterns of the runtime: begin a try, and store its result. */
@Controller()
export class MailRpcController {
  constructor(
    private readonly source: DataSource,
    private readonly queues: Queues,
    private readonly bus: EventBus,
    private readonly failPoints: FailPoints,
    @Inject(LOGGER) private readonly log: Logger,
  ) {}

  @MessagePattern('mail.message.begin')
  begin(@Payload() request: PatternRequest<'mail.message.begin'>): Promise<PatternReply<'mail.message.begin'>> {
    return inCatalogue(this.log, async () => {
      const reply = await transactAndTell(this.source, this.queues, (tx) => beginMessage(tx, request));
      if (reply.kind === 'send') this.failPoints.reach('mail.after-begin');
      return reply;
    });
  }

  @MessagePattern('mail.message.end')
  end(@Payload() request: PatternRequest<'mail.message.end'>): Promise<PatternReply<'mail.message.end'>> {
    return inCatalogue(this.log, async () => {
      const reply = await transactAndTell(this.source, this.queues, (tx) => endMessage(tx, this.bus, request));
      if (reply.kind === 'stored') this.failPoints.reach('mail.after-end');
      return reply;
    });
  }
}
