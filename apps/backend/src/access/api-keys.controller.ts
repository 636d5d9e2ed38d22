import { Body, Controller, Delete, Get, HttpCode, Param, Post, Query } from '@nestjs/common';
import { ApiOperation, ApiTags } from '@nestjs/swagger';
import { DataSource } from 'typeorm';
import { z } from 'zod';
import { rows, transact } from '../database/sql.js';
import { instantKey, pageOf, pageQuery, seek } from '../http/page.js';
import { Problem } from '../http/problem.js';
import { uuidSchema } from '../http/uuid.js';
import { createApiKey } from './create-api-key.js';
import { revokeApiKey } from './revoke-api-key.js';
import { Unrepeatable } from './unrepeatable.js';

const newKeySchema = z.strictObject({ name: z.string().trim().min(1).max(100) });
const listSchema = z.strictObject(pageQuery('instant'));

type KeyRow = { id: string; name: string; prefix: string; created_key: string; created_at: Date; last_used_at: Date | null; revoked_at: Date | null };

@ApiTags('api-keys')
@Controller('api-keys')
export class ApiKeysController {
  constructor(private readonly source: DataSource) {}

  @Post()
  @Unrepeatable()
  @ApiOperation({ summary: 'Make an API key; it is shown in this answer and never again' })
  create(@Body({ schema: newKeySchema }) { name }: z.infer<typeof newKeySchema>) {
    return transact(this.source, (tx) => createApiKey(tx, name));
  }

  @Get()
  @ApiOperation({ summary: 'List API keys, newest first, without the keys themselves' })
  async list(@Query({ schema: listSchema }) page: z.infer<typeof listSchema>) {
    const { where, parameters, ending } = seek(page, { key: 'created_at', id: 'id', kind: 'instant' }, 0);
    const found = await rows<KeyRow>(
      this.source,
      `SELECT id, name, prefix, ${instantKey('created_at')} AS created_key, created_at, last_used_at, revoked_at FROM api_keys WHERE ${where} ${ending}`,
      parameters,
    );
    return pageOf(
      found,
      page.limit,
      (row) => [row.created_key, row.id],
      (row) => ({
        id: row.id,
        name: row.name,
        prefix: row.prefix,
        createdAt: row.created_at.toISOString(),
        lastUsedAt: row.last_used_at?.toISOString() ?? null,
        revokedAt: row.revoked_at?.toISOString() ?? null,
      }),
    );
  }

  @Delete(':id')
  @HttpCode(204)
  @ApiOperation({ summary: 'Revoke an API key; the last live one cannot be revoked' })
  async revoke(@Param('id', { schema: uuidSchema }) id: string): Promise<void> {
    const revocation = await transact(this.source, (tx) => revokeApiKey(tx, id));
    switch (revocation) {
      case 'revoked':
        return;
      case 'unknown':
        throw new Problem('not_found', 'There is no API key with this id');
      case 'last_key':
        throw new Problem('conflict', 'This is the last live API key; make another one first');
    }
  }
}
