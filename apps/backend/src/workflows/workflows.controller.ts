import { Body, Controller, Delete, Get, Headers, HttpCode, Param, Patch, Post, Put, Query, Req } from '@nestjs/common';
import { ApiHeader, ApiOperation, ApiTags } from '@nestjs/swagger';
import type { FastifyRequest } from 'fastify';
import { DataSource } from 'typeorm';
import { z } from 'zod';
import { callerOf } from '../access/api-key.guard.js';
import { ActionCatalogue } from '../actions/action-catalogue.js';
import { TakesBody } from '../http/body-kind.js';
import { pageQuery } from '../http/page.js';
import { archiveWorkflow, deleteWorkflow, pauseWorkflow, resumeWorkflow, unarchiveWorkflow } from './change-status.js';
import { checkGraph } from './check-graph.js';
import { createWorkflow } from './create-workflow.js';
import { GRAPH_AS_JSON_SCHEMA } from './graph-as-json-schema.js';
import { publishWorkflow } from './publish-workflow.js';
import { readIfMatch } from '../http/read-if-match.js';
import { uuidSchema } from '../http/uuid.js';
import { listVersions, listWorkflows, readVersion, readWorkflow } from './read-workflow.js';
import { updateWorkflow } from './update-workflow.js';
import { WORKFLOW_STATUSES, workflowSettingsSchema } from './workflow-settings.js';

/** The largest graph, 1,000 nodes and 4,000 edges, with room to spare; in bytes. */
const GRAPH_BODY = { kind: 'json', limitBytes: 2 * 1024 * 1024 } as const;

/** Looked into by the rules of workflow-graph, which name every defect by node and edge, and not by the field rules of HTTP. */
const graphSchema = z.unknown().meta(GRAPH_AS_JSON_SCHEMA);
const nameSchema = z.string().trim().min(1).max(200);
const descriptionSchema = z.string().max(10_000);

const wholeSchema = z.strictObject({
  name: nameSchema,
  description: descriptionSchema.default(''),
  graph: graphSchema,
  settings: workflowSettingsSchema.prefault({}),
});
const partSchema = z
  .strictObject({
    name: nameSchema.optional(),
    description: descriptionSchema.optional(),
    graph: graphSchema.optional(),
    settings: workflowSettingsSchema.optional(),
  })
  .refine((part) => Object.values(part).some((value) => value !== undefined), { message: 'must name at least one field to change' });
const validateSchema = z.strictObject({ graph: graphSchema });
const listSchema = z.strictObject({
  ...pageQuery('instant'),
  status: z.enum(WORKFLOW_STATUSES).optional(),
  archived: z
    .enum(['true', 'false'])
    .default('false')
    .transform((text) => text === 'true'),
});
const versionsSchema = z.strictObject(pageQuery('instant'));
const numberSchema = z.coerce.number().int().min(1).max(2_147_483_647);

/** The header as clients may leave it out. */
const IF_MATCH = { name: 'if-match', required: false, description: 'The revision that was read, such as "3"' };

@ApiTags('workflows')
@Controller('workflows')
export class WorkflowsController {
  constructor(
    private readonly source: DataSource,
    private readonly catalogue: ActionCatalogue,
  ) {}

  @Post()
  @TakesBody(GRAPH_BODY)
  @ApiOperation({ summary: 'Make a workflow; it is a draft' })
  async create(@Body({ schema: wholeSchema }) body: z.infer<typeof wholeSchema>) {
    return this.read(await createWorkflow(this.source, this.catalogue, body));
  }

  @Get()
  @ApiOperation({ summary: 'List workflows, newest first' })
  list(@Query({ schema: listSchema }) { status, archived, ...page }: z.infer<typeof listSchema>) {
    return listWorkflows(this.source, { status, archived }, page);
  }

  @Post('validate')
  @HttpCode(200)
  @TakesBody(GRAPH_BODY)
  @ApiOperation({ summary: 'Say everything that hinders a graph from being published, and store nothing' })
  validate(@Body({ schema: validateSchema }) { graph }: z.infer<typeof validateSchema>) {
    const { defects, warnings } = checkGraph(this.catalogue, graph, 'publish');
    return { valid: defects.length === 0, defects, warnings };
  }

  @Get(':id')
  @ApiOperation({ summary: 'Read a workflow: its draft, what is wrong with it, and what runs now' })
  get(@Param('id', { schema: uuidSchema }) id: string) {
    return this.read(id);
  }

  @Put(':id')
  @TakesBody(GRAPH_BODY)
  @ApiHeader(IF_MATCH)
  @ApiOperation({ summary: 'Replace the draft; If-Match with its revision refuses to overwrite a change of somebody else' })
  async replace(
    @Param('id', { schema: uuidSchema }) id: string,
    @Body({ schema: wholeSchema }) body: z.infer<typeof wholeSchema>,
    @Headers('if-match') ifMatch: string | undefined,
  ) {
    await updateWorkflow(this.source, this.catalogue, id, body, readIfMatch(ifMatch));
    return this.read(id);
  }

  @Patch(':id')
  @TakesBody(GRAPH_BODY)
  @ApiHeader(IF_MATCH)
  @ApiOperation({ summary: 'Change parts of the draft; If-Match as with PUT' })
  async change(
    @Param('id', { schema: uuidSchema }) id: string,
    @Body({ schema: partSchema }) body: z.infer<typeof partSchema>,
    @Headers('if-match') ifMatch: string | undefined,
  ) {
    await updateWorkflow(this.source, this.catalogue, id, body, readIfMatch(ifMatch));
    return this.read(id);
  }

  @Delete(':id')
  @HttpCode(204)
  @ApiOperation({ summary: 'Delete a workflow that never had a run' })
  remove(@Param('id', { schema: uuidSchema }) id: string): Promise<void> {
    return deleteWorkflow(this.source, id);
  }

  @Post(':id/validate')
  @HttpCode(200)
  @ApiOperation({ summary: 'Say everything that hinders the draft from being published' })
  async validateDraft(@Param('id', { schema: uuidSchema }) id: string) {
    const { problems, warnings } = await this.read(id);
    return { valid: problems.length === 0, defects: problems, warnings };
  }

  @Post(':id/publish')
  @HttpCode(200)
  @ApiHeader(IF_MATCH)
  @ApiOperation({ summary: 'Make the draft the next version and the workflow active; refused with every defect' })
  async publish(@Param('id', { schema: uuidSchema }) id: string, @Headers('if-match') ifMatch: string | undefined, @Req() request: FastifyRequest) {
    await publishWorkflow(this.source, this.catalogue, id, { publishedBy: callerOf(request)?.name ?? 'unknown', expectedRevision: readIfMatch(ifMatch) });
    return this.read(id);
  }

  @Post(':id/pause')
  @HttpCode(200)
  @ApiOperation({ summary: 'Start no runs and move none until it is resumed' })
  async pause(@Param('id', { schema: uuidSchema }) id: string) {
    await pauseWorkflow(this.source, id);
    return this.read(id);
  }

  @Post(':id/resume')
  @HttpCode(200)
  @ApiOperation({ summary: 'Make a paused workflow active again; what came due meanwhile is paced' })
  async resume(@Param('id', { schema: uuidSchema }) id: string) {
    await resumeWorkflow(this.source, id);
    return this.read(id);
  }

  @Post(':id/archive')
  @HttpCode(200)
  @ApiOperation({ summary: 'Put a draft or paused workflow away' })
  async archive(@Param('id', { schema: uuidSchema }) id: string) {
    await archiveWorkflow(this.source, id);
    return this.read(id);
  }

  @Post(':id/unarchive')
  @HttpCode(200)
  @ApiOperation({ summary: 'Take a workflow out of the archive, as it was' })
  async unarchive(@Param('id', { schema: uuidSchema }) id: string) {
    await unarchiveWorkflow(this.source, id);
    return this.read(id);
  }

  @Get(':id/versions')
  @ApiOperation({ summary: 'List the versions of a workflow, newest first' })
  versions(@Param('id', { schema: uuidSchema }) id: string, @Query({ schema: versionsSchema }) page: z.infer<typeof versionsSchema>) {
    return listVersions(this.source, id, page);
  }

  @Get(':id/versions/:number')
  @ApiOperation({ summary: 'Read a version with its graph' })
  version(@Param('id', { schema: uuidSchema }) id: string, @Param('number', { schema: numberSchema }) number: number) {
    return readVersion(this.source, id, number);
  }

  private read(id: string) {
    return readWorkflow(this.source, this.catalogue, id);
  }
}
