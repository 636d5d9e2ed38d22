import { Body, Controller, Delete, Get, HttpCode, HttpStatus, Param, Post, Query, Res } from '@nestjs/common';
import { ApiBody, ApiConsumes, ApiOperation, ApiTags } from '@nestjs/swagger';
import type { FastifyReply } from 'fastify';
import { DataSource } from 'typeorm';
import { z } from 'zod';
import { emailSchema } from '../contacts/contact-input.js';
import { CSV_DELIMITERS } from '../contacts/read-csv.js';
import { rows } from '../database/sql.js';
import { CSV_BODY, TakesBody } from '../http/body-kind.js';
import { pageOf, pageQuery, seek } from '../http/page.js';
import { Problem } from '../http/problem.js';
import { SUPPRESSION_REASONS, type SuppressionReason } from './suppression.entity.js';
import { importSuppressions, liftSuppression, suppress } from './suppressions.js';

const reasonSchema = z.enum(SUPPRESSION_REASONS);
const newSchema = z.strictObject({ email: emailSchema, reason: reasonSchema.default('manual') });
const listQuery = z.strictObject({ ...pageQuery('text'), email: z.string().max(320).toLowerCase().optional(), reason: reasonSchema.optional() });
const liftQuery = z.strictObject({ reason: reasonSchema.optional() });
const importQuery = z.strictObject({ delimiter: z.enum(['auto', ...(Object.keys(CSV_DELIMITERS) as (keyof typeof CSV_DELIMITERS)[])]).default('auto') });

@ApiTags('suppressions')
@Controller('suppressions')
export class SuppressionsController {
  constructor(private readonly source: DataSource) {}

  @Get()
  @ApiOperation({ summary: 'List addresses that must not be written to, by address' })
  async list(@Query({ schema: listQuery }) query: z.infer<typeof listQuery>) {
    const { where, parameters, ending } = seek(query, { key: 'email', id: 'reason', kind: 'text', order: 'asc' }, 2);
    const found = await rows<{ email: string; reason: SuppressionReason; createdAt: Date }>(
      this.source,
      `SELECT email, reason, created_at AS "createdAt" FROM suppressions
       WHERE ($1::text IS NULL OR email = $1) AND ($2::text IS NULL OR reason = $2) AND ${where} ${ending}`,
      [query.email ?? null, query.reason ?? null, ...parameters],
    );
    return pageOf(
      found,
      query.limit,
      ({ email, reason }) => [email, reason],
      (suppression) => suppression,
    );
  }

  @Post()
  @ApiOperation({ summary: 'Suppress an address' })
  async create(@Body({ schema: newSchema }) body: z.infer<typeof newSchema>, @Res({ passthrough: true }) response: FastifyReply) {
    const made = await suppress(this.source, [body]);
    response.status(made > 0 ? HttpStatus.CREATED : HttpStatus.OK);
    return body;
  }

  @Post('import')
  @TakesBody(CSV_BODY)
  @HttpCode(200)
  @ApiConsumes('text/csv')
  @ApiBody({ schema: { type: 'string' } })
  @ApiOperation({ summary: 'Suppress the addresses of a CSV with the columns email and, if wanted, reason' })
  async import(@Body() bytes: unknown, @Query({ schema: importQuery }) { delimiter }: z.infer<typeof importQuery>) {
    if (!Buffer.isBuffer(bytes)) throw new Problem('malformed', 'The body is empty');
    return importSuppressions(this.source, bytes, delimiter);
  }

  @Delete(':email')
  @HttpCode(204)
  @ApiOperation({ summary: 'Let an address be written to again, for one reason or for all' })
  async lift(@Param('email', { schema: emailSchema }) email: string, @Query({ schema: liftQuery }) { reason }: z.infer<typeof liftQuery>): Promise<void> {
    if ((await liftSuppression(this.source, email, reason)) === 0) throw new Problem('not_found', 'The address is not suppressed');
  }
}
