import { jsonSchema } from '@onward/contracts/json';
import { RUN_STATES } from '@onward/contracts/patterns';
import { Body, Controller, Get, HttpCode, Param, Post, Query, Req } from '@nestjs/common';
import { ApiOperation, ApiTags } from '@nestjs/swagger';
import type { FastifyRequest } from 'fastify';
import { DataSource } from 'typeorm';
import { z } from 'zod';
import { nameOf } from '../access/api-key.guard.js';
import { rows } from '../database/sql.js';
import { transactAndTell } from '../database/outbox.js';
import { EventBus } from '../events/event-bus.js';
import { pageOf, pageQuery, seek } from '../http/page.js';
import { Problem } from '../http/problem.js';
import { uuidSchema } from '../http/uuid.js';
import { Queues } from '../operations/queues.js';
import { VersionReader } from '../workflows/read-version.js';
import { originText } from '../targets/origin-text.js';
import { cancelRun } from './cancel-run.js';
import { getRun, listRuns } from './read-run.js';
import { listUncertain } from './list-uncertain.js';
import { replayRun } from './replay-run.js';
import { resolveRun } from './resolve-run.js';
import { startManually } from './start-manually.js';
import { retryNow, wakeNow } from './wake-run.js';
import { withRun } from './with-run.js';

const contactRef = z.union([
  z.strictObject({ id: uuidSchema }),
  z.strictObject({ externalId: z.string().min(1).max(200) }),
  z.strictObject({ email: z.string().min(3).max(254) }),
]);

const startBody = z
  .strictObject({
    workflowId: uuidSchema,
    contacts: z.array(contactRef).min(1).max(500).optional(),
    withoutContact: z.literal(true).optional(),
    payload: z.record(z.string().max(200), jsonSchema).default({}),
  })
  .refine(({ contacts, withoutContact }) => (contacts === undefined) !== (withoutContact === undefined), {
    path: ['contacts'],
    message: 'give either contacts or withoutContact',
  });

const states = z.preprocess((value) => (typeof value === 'string' ? value.split(',') : value), z.array(z.enum(RUN_STATES)).min(1)).optional();
const listQuery = z.strictObject({
  ...pageQuery('uuid'),
  workflowId: uuidSchema.optional(),
  state: states,
  contactId: uuidSchema.optional(),
  eventId: z.string().max(200).optional(),
  target: originText.optional(),
});
const lettersQuery = z.strictObject({ ...pageQuery('uuid'), workflowId: uuidSchema.optional() });
const refusalsQuery = z.strictObject({
  ...pageQuery('uuid'),
  workflowId: uuidSchema.optional(),
  contactId: uuidSchema.optional(),
  eventId: z.string().max(200).optional(),
});
const replayBody = z.strictObject({ versionId: uuidSchema.optional() });
const resolveBody = z.strictObject({ seq: z.int().positive(), n: z.int().positive(), happened: z.boolean() });
const uncertainQuery = z.strictObject({ ...pageQuery('instant'), resolved: z.enum(['true', 'false']).default('false') });

@ApiTags('runs')
@Controller()
export class RunsController {
  constructor(
    private readonly source: DataSource,
    private readonly queues: Queues,
    private readonly bus: EventBus,
    private readonly versions: VersionReader,
  ) {}

  @Post('runs')
  @ApiOperation({ summary: 'Start runs by hand; each contact is answered: started, or refused with the reason' })
  async start(@Body({ schema: startBody }) body: z.infer<typeof startBody>, @Req() request: FastifyRequest) {
    const { workflowId, contacts = [], withoutContact = false, payload } = body;
    const start = { workflowId, contacts, withoutContact, payload, startedBy: nameOf(request) };
    const answers = await transactAndTell(this.source, this.queues, (tx) => startManually(tx, start, this.versions));
    if (!answers) throw new Problem('not_found', `There is no workflow ${workflowId}`, { errors: [{ path: 'workflowId', message: 'is not known' }] });
    return { results: answers };
  }

  @Get('runs')
  @ApiOperation({
    summary: 'List runs, the newest first; `state` takes several, separated by commas; `target` takes an origin and gives the runs blocked by it',
  })
  list(@Query({ schema: listQuery }) query: z.infer<typeof listQuery>) {
    return listRuns(this.source, query, query);
  }

  @Get('dead-letters')
  @ApiOperation({ summary: 'Runs that ended failed or dead-lettered, the newest first' })
  deadLetters(@Query({ schema: lettersQuery }) query: z.infer<typeof lettersQuery>) {
    return listRuns(this.source, { ...query, state: ['failed', 'dead_lettered'] }, query);
  }

  @Get('run-refusals')
  @ApiOperation({ summary: 'Why no run was started, the newest first' })
  async refusals(@Query({ schema: refusalsQuery }) query: z.infer<typeof refusalsQuery>) {
    const place = seek(query, { key: 'id', id: 'id', kind: 'uuid' }, 3);
    const found = await rows<{ id: string }>(
      this.source,
      `SELECT id, workflow_id AS "workflowId", version_id AS "versionId", event_id AS "eventId", contact_id AS "contactId", reason, detail, created_at AS "createdAt"
       FROM run_refusals WHERE ($1::uuid IS NULL OR workflow_id = $1) AND ($2::uuid IS NULL OR contact_id = $2) AND ($3::text IS NULL OR event_id = $3)
         AND ${place.where} ${place.ending}`,
      [query.workflowId ?? null, query.contactId ?? null, query.eventId ?? null, ...place.parameters],
    );
    return pageOf(
      found,
      query.limit,
      (row) => [row.id, row.id],
      (row) => row,
    );
  }

  @Get('runs/:id')
  @ApiOperation({ summary: 'One run with its whole history' })
  get(@Param('id', { schema: uuidSchema }) runId: string) {
    return this.show(runId);
  }

  @Post('runs/:id/cancel')
  @HttpCode(200)
  @ApiOperation({ summary: 'Cancel: at once while it rests, after the step in hand otherwise' })
  async cancel(@Param('id', { schema: uuidSchema }) runId: string) {
    const when = await withRun(this.source, this.queues, runId, async (checkpoint) => cancelRun(checkpoint, this.bus));
    return { cancelled: when, run: await this.show(runId) };
  }

  @Post('runs/:id/retry-now')
  @HttpCode(200)
  @ApiOperation({ summary: 'Try a failed step again now' })
  async retryNow(@Param('id', { schema: uuidSchema }) runId: string) {
    await withRun(this.source, this.queues, runId, async (checkpoint) => retryNow(checkpoint));
    return this.show(runId);
  }

  @Post('runs/:id/wake-now')
  @HttpCode(200)
  @ApiOperation({ summary: 'End a wait by time now' })
  async wakeNow(@Param('id', { schema: uuidSchema }) runId: string) {
    await withRun(this.source, this.queues, runId, async (checkpoint) => wakeNow(checkpoint));
    return this.show(runId);
  }

  @Post('runs/:id/replay')
  @HttpCode(200)
  @ApiOperation({ summary: 'Send a failed or dead-lettered run back from the node at which it ended' })
  async replay(@Param('id', { schema: uuidSchema }) runId: string, @Body({ schema: replayBody }) body: z.infer<typeof replayBody>) {
    await withRun(this.source, this.queues, runId, (checkpoint) => replayRun(checkpoint, body, this.versions));
    return this.show(runId);
  }

  @Post('runs/:id/resolve')
  @HttpCode(200)
  @ApiOperation({
    summary:
      'Say whether the uncertain request happened at which a run was given up, `seq` and `n` as in /uncertain-outcomes: the run goes on behind it, or sends it again',
  })
  async resolve(
    @Param('id', { schema: uuidSchema }) runId: string,
    @Body({ schema: resolveBody }) body: z.infer<typeof resolveBody>,
    @Req() request: FastifyRequest,
  ) {
    await withRun(this.source, this.queues, runId, (checkpoint) => resolveRun(checkpoint, { ...body, by: nameOf(request) }, this.versions));
    return this.show(runId);
  }

  @Get('uncertain-outcomes')
  @ApiOperation({ summary: 'Requests and mails of which nobody knows whether they happened, the newest first; `resolved=true`: those a person has resolved' })
  uncertain(@Query({ schema: uncertainQuery }) { resolved, ...page }: z.infer<typeof uncertainQuery>) {
    return listUncertain(this.source, { isResolved: resolved === 'true' }, page);
  }

  private async show(runId: string) {
    const run = await getRun(this.source, runId);
    if (!run) throw new Problem('not_found', `There is no run ${runId}`);
    return run;
  }
}
