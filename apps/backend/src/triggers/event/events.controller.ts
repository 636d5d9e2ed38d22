import { maskCredentials } from '@onward/contracts/credential-names';
import { eventTypeSchema } from '@onward/contracts/event-type';
import { jsonSchema, instantSchema } from '@onward/contracts/json';
import { Body, Controller, Get, HttpCode, HttpStatus, Inject, Param, Post, Query, Res } from '@nestjs/common';
import { ApiOperation, ApiTags } from '@nestjs/swagger';
import type { FastifyReply } from 'fastify';
import { DataSource } from 'typeorm';
import { z } from 'zod';
import { attributesSchema, emailSchema, externalIdSchema } from '../../contacts/contact-input.js';
import { rows } from '../../database/sql.js';
import { BATCH_BODY, TakesBody } from '../../http/body-kind.js';
import { invalidFields } from '../../http/field-pipe.js';
import { instantKey, pageOf, pageQuery, seek } from '../../http/page.js';
import { Problem } from '../../http/problem.js';
import { detailsOf, problemOf } from '../../http/problem-filter.js';
import { uuidSchema } from '../../http/uuid.js';
import { LOGGER, type Logger } from '../../operations/logger.js';
import type { Accepted, EventAnswer, EventInput } from './accept-events.js';
import { EventIntake } from './event-intake.js';

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
  type: eventTypeSchema,
  contact: contactSchema.optional(),
  payload: z.record(z.string().max(200), jsonSchema).default({}),
  occurredAt: instantSchema.optional(),
});

const MAX_BATCH = 500;
const { $schema: _, ...eventAsJsonSchema } = z.toJSONSchema(eventBody, { io: 'input', unrepresentable: 'any' });
/** Each event is looked at on its own, so that one that is malformed is refused alone; what it should be is said in the description only. */
const batchBody = z.strictObject({ events: z.array(z.unknown().meta(eventAsJsonSchema)).min(1).max(MAX_BATCH) });

const eventsQuery = z.strictObject({ ...pageQuery('instantAndText'), type: z.string().max(100).optional(), contactId: uuidSchema.optional() });

@ApiTags('events')
@Controller('events')
export class EventsController {
  constructor(
    private readonly source: DataSource,
    private readonly intake: EventIntake,
    @Inject(LOGGER) private readonly log: Logger,
  ) {}

  @Post()
  @ApiOperation({ summary: 'Accept an event: a run, or a recorded refusal, for each active workflow that matches' })
  async accept(@Body({ schema: eventBody }) body: z.infer<typeof eventBody>, @Res({ passthrough: true }) response: FastifyReply) {
    const [answer] = await this.intake.accept([body]);
    if (!answer) throw new Error('An event is answered once');
    if ('refused' in answer) throw answer.refused;
    response.status(statusOf(answer.accepted));
    return shown(answer.accepted);
  }

  @Post('batch')
  @HttpCode(200)
  @TakesBody(BATCH_BODY)
  @ApiOperation({
    summary: `Accept up to ${MAX_BATCH} events, in their order; answers one result an event: its \`status\` as if it had come alone, with what was accepted or a \`problem\``,
  })
  async acceptBatch(@Body({ schema: batchBody }) body: z.infer<typeof batchBody>) {
    const read = body.events.map((event, index) => readEvent(event, index));
    const inputs = read.flatMap((one) => ('input' in one ? [one.input] : []));
    const answers = inputs.length === 0 ? [] : await this.intake.accept(inputs);
    let nth = 0;
    const results = read.map((one, index) => {
      if ('problem' in one) return resultOf({ refused: one.problem });
      const answer = answers[nth];
      nth += 1;
      return resultOf(placed(answer ?? { refused: new Error('An event is answered once') }, index));
    });
    for (const { unforeseen } of results) if (unforeseen !== undefined) this.log.error({ err: unforeseen }, 'an event of a batch met an unforeseen fault');
    return { results: results.map(({ result }) => result) };
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

function readEvent(event: unknown, index: number): { input: EventInput } | { problem: Problem } {
  const read = eventBody.safeParse(event);
  return read.success ? { input: read.data } : { problem: invalidFields(read.error.issues, 'body', `events[${index}]`) };
}

/** A refusal with its fields named as those of the batch. */
function placed(answer: EventAnswer, index: number): EventAnswer {
  if ('accepted' in answer || !(answer.refused instanceof Problem)) return answer;
  const { code, detail, errors } = answer.refused;
  return { refused: new Problem(code, detail, errors ? { errors: errors.map(({ path, message }) => ({ path: `events[${index}].${path}`, message })) } : {}) };
}

function resultOf(answer: EventAnswer): { result: object; unforeseen?: unknown } {
  if ('accepted' in answer) return { result: { status: statusOf(answer.accepted), ...shown(answer.accepted) } };
  const problem = problemOf(answer.refused);
  const details = detailsOf(problem);
  return { result: { status: details.status, problem: details }, ...(problem.code === 'internal' ? { unforeseen: answer.refused } : {}) };
}

const statusOf = ({ isRepeated }: Accepted) => (isRepeated ? HttpStatus.OK : HttpStatus.CREATED);

const shown = ({ id, contactId, isRepeated, dispatched }: Accepted) => ({
  id,
  contactId,
  isRepeated,
  runs: dispatched.flatMap((one) => ('runId' in one ? [one] : [])),
  refusals: dispatched.flatMap((one) => ('refused' in one ? [{ workflowId: one.workflowId, reason: one.refused }] : [])),
});

const SELECT = `SELECT id, type, contact_id AS "contactId", payload, occurred_at AS "occurredAt", received_at AS "receivedAt", ${instantKey('received_at')} AS at FROM events`;
type EventRow = { id: string; type: string; contactId: string | null; payload: unknown; occurredAt: Date; receivedAt: Date; at: string };
/** Values under names of credentials are masked. */
const show = ({ at: _at, payload, ...event }: EventRow) => ({ ...event, payload: maskCredentials(payload) });
