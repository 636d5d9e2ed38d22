import { maskCredentials } from '@onward/contracts/credential-names';
import { FailPoints } from '@onward/wire/fail-points';
import { jsonSchema, instantSchema } from '@onward/contracts/json';
import { Body, Controller, Get, HttpStatus, Param, Post, Query, Res } from '@nestjs/common';
import { ApiOperation, ApiTags } from '@nestjs/swagger';
import type { Response } from 'express';
import { DataSource } from 'typeorm';
import { z } from 'zod';
import { attributesSchema, emailSchema, externalIdSchema } from '../../contacts/contact-input.js';
import { transactAndTell } from '../../database/outbox.js';
import { rows } from '../../database/sql.js';
import { EventBus } from '../../events/event-bus.js';
import { instantKey, pageOf, pageQuery, seek } from '../../http/page.js';
import { Problem } from '../../http/problem.js';
import { Queues } from '../../operations/queues.js';
import { acceptEvent } from './accept-event.js';

const contactSchema = z
  .strictObject({ externalId: externalIdSchema.optional(), email: emailSchema.optional(), attributes: attributesSchema.optional() })
  .refine(({ externalId, email }) => externalId !== undefined || email !== undefined, { message: 'needs an externalId or an email' });

const eventBody = z.strictObject({
  id: z
    .string()
    .min(1)
    .max(200)
    .regex(/^[\x21-\x7e]+$/, 'must be visible ASCII without spaces')
    .optional(),
  type: z.string().regex(/^[a-z][a-z0-9_.-]{0,99}$/i, 'must be an event type such as order.paid'),
  contact: contactSchema.optional(),
  payload: z.record(z.string().max(200), jsonSchema).default({}),
  occurredAt: instantSchema.optional(),
});

const eventsQuery = z.strictObject({ ...pageQuery('instantAndText'), type: z.string().max(100).optional(), contactId: z.uuid().optional() });

@ApiTags('events')
@Controller('events')
export class EventsController {
  constructor(
    private readonly source: DataSource,
    private readonly queues: Queues,
    private readonly bus: EventBus,
    private readonly failPoints: FailPoints,
  ) {}

  @Post()
  @ApiOperation({ summary: 'Accept an event: a run, or a recorded refusal, for each active workflow that matches' })
  async accept(@Body({ schema: eventBody }) body: z.infer<typeof eventBody>, @Res({ passthrough: true }) response: Response) {
    const accepted = await transactAndTell(this.source, this.queues, (tx) => acceptEvent(tx, body, { bus: this.bus, failPoints: this.failPoints }));
    response.status(accepted.isRepeated ? HttpStatus.OK : HttpStatus.CREATED);
    const { id, contactId, isRepeated, dispatched } = accepted;
    return {
      id,
      contactId,
      isRepeated,
      runs: dispatched.flatMap((one) => ('runId' in one ? [one] : [])),
      refusals: dispatched.flatMap((one) => ('refused' in one ? [{ workflowId: one.workflowId, reason: one.refused }] : [])),
    };
  }

  @Get()
  @ApiOperation({ summary: 'List events, the newest first' })
  async list(@Query({ schema: eventsQuery }) query: z.infer<typeof eventsQuery>) {
    const page = seek(query, { key: 'received_at', id: 'id', kind: 'instantAndText' }, 2);
    const found = await rows<EventRow>(
      this.source,
      `${SELECT} WHERE ($1::text IS NULL OR type = $1) AND ($2::uuid IS NULL OR contact_id = $2) AND ${page.where} ${page.ending}`,
      [query.type ?? null, query.contactId ?? null, ...page.parameters],
    );
    return pageOf(found, query.limit, ({ at, id }) => [at, id], show);
  }

  @Get(':id')
  @ApiOperation({ summary: 'One event, with the runs and refusals it led to' })
  async get(@Param('id') id: string) {
    const [event] = await rows<EventRow>(this.source, `${SELECT} WHERE id = $1`, [id]);
    if (!event) throw new Problem('not_found', `There is no event "${id}"`);
    const runs = await rows(this.source, 'SELECT workflow_id AS "workflowId", id AS "runId", state FROM runs WHERE event_id = $1 ORDER BY workflow_id', [id]);
    const refusals = await rows(this.source, 'SELECT workflow_id AS "workflowId", reason, detail FROM run_refusals WHERE event_id = $1 ORDER BY workflow_id', [
      id,
    ]);
    return { ...show(event), runs, refusals };
  }
}

const SELECT = `SELECT id, type, contact_id AS "contactId", payload, occurred_at AS "occurredAt", received_at AS "receivedAt", ${instantKey('received_at')} AS at FROM events`;
type EventRow = { id: string; type: string; contactId: string | null; payload: unknown; occurredAt: Date; receivedAt: Date; at: string };
/** Values under names of credentials are masked. */
const show = ({ at: _at, payload, ...event }: EventRow) => ({ ...event, payload: maskCredentials(payload) });
