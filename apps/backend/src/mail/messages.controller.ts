import { Body, Controller, Get, HttpCode, Param, Post, Query, Req } from '@nestjs/common';
import { ApiOperation, ApiTags } from '@nestjs/swagger';
import type { FastifyRequest } from 'fastify';
import { DataSource } from 'typeorm';
import { z } from 'zod';
import { nameOf } from '../access/api-key.guard.js';
import { transactAndTell } from '../database/outbox.js';
import { rows } from '../database/sql.js';
import { EventBus } from '../events/event-bus.js';
import { instantKey, pageOf, pageQuery, type Place, seek } from '../http/page.js';
import { Problem } from '../http/problem.js';
import { uuidSchema } from '../http/uuid.js';
import { Queues } from '../operations/queues.js';
import { type Mailbox, MESSAGE_STATES, Message, type MessageState } from './message.entity.js';
import { resolveMessage } from './resolve-message.js';

const listSchema = z.strictObject({
  ...pageQuery('instant'),
  runId: uuidSchema.optional(),
  contactId: uuidSchema.optional(),
  state: z.enum(MESSAGE_STATES).optional(),
});

const resolveBody = z.strictObject({ delivered: z.boolean() });

/** A message without its content, as lists show it. */
type MessageSummary = {
  id: string;
  runId: string | null;
  seq: number | null;
  noticeId: string | null;
  contactId: string | null;
  templateId: string | null;
  state: MessageState;
  try: number;
  to: Mailbox;
  subject: string;
  skipReason: string | null;
  failure: Message['failure'];
  createdAt: Date;
  endedAt: Date | null;
};

const SUMMARY = `
  id, run_id AS "runId", seq, notice_id AS "noticeId", contact_id AS "contactId", template_id AS "templateId", state, try, to_mailbox AS "to", subject,
  skip_reason AS "skipReason", failure, created_at AS "createdAt", ended_at AS "endedAt"`;

@ApiTags('messages')
@Controller('messages')
export class MessagesController {
  constructor(
    private readonly source: DataSource,
    private readonly queues: Queues,
    private readonly bus: EventBus,
  ) {}

  @Get()
  @ApiOperation({ summary: 'List messages, newest first; of a run, of a contact, or in a state' })
  async list(@Query({ schema: listSchema }) { runId, contactId, state, ...page }: z.infer<typeof listSchema>) {
    const { where, parameters, ending } = seek(page, { key: 'created_at', id: 'id', kind: 'instant' }, 3);
    const found = await rows<MessageSummary & { key: string }>(
      this.source,
      `SELECT ${SUMMARY}, ${instantKey('created_at')} AS key FROM messages
        WHERE ($1::uuid IS NULL OR run_id = $1) AND ($2::uuid IS NULL OR contact_id = $2) AND ($3::text IS NULL OR state = $3) AND ${where} ${ending}`,
      [runId ?? null, contactId ?? null, state ?? null, ...parameters],
    );
    return pageOf(
      found,
      page.limit,
      ({ key, id }): Place => [key, id],
      ({ key: _, ...message }) => message,
    );
  }

  @Get(':id')
  @ApiOperation({ summary: 'Read one message, its content included' })
  async get(@Param('id', { schema: uuidSchema }) id: string): Promise<Omit<Message, 'wokenAt' | 'resultTry'>> {
    const message = await this.source.manager.findOneBy(Message, { id });
    if (!message) throw new Problem('not_found', 'There is no such message');
    const { wokenAt: _, resultTry: __, ...shown } = message;
    return shown;
  }

  @Post(':id/resolve')
  @HttpCode(200)
  @ApiOperation({ summary: 'Say whether an uncertain message was delivered; its run has gone on and stays as it is' })
  async resolve(
    @Param('id', { schema: uuidSchema }) id: string,
    @Body({ schema: resolveBody }) { delivered }: z.infer<typeof resolveBody>,
    @Req() request: FastifyRequest,
  ) {
    await transactAndTell(this.source, this.queues, (tx) => resolveMessage(tx, this.bus, { id, delivered, by: nameOf(request) }));
    return this.get(id);
  }
}
