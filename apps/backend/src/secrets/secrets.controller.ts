import { Body, Controller, Delete, Get, HttpCode, Inject, Param, Patch, Post, Put, Query } from '@nestjs/common';
import { ApiOperation, ApiTags } from '@nestjs/swagger';
import { DataSource } from 'typeorm';
import { z } from 'zod';
import { ActionCatalogue } from '../actions/action-catalogue.js';
import { newId } from '../database/new-id.js';
import { change, rows, transact, type Tx } from '../database/sql.js';
import { instantKey, pageOf, pageQuery, seek } from '../http/page.js';
import { Problem } from '../http/problem.js';
import { uuidSchema } from '../http/uuid.js';
import { SETTINGS, type Settings } from '../settings.js';
import { findUsers, type SecretUser } from './find-uses.js';
import { sealValue } from './seal-value.js';
import { allowedOriginsSchema, secretNameSchema, secretValueSchema } from './secret-input.js';

const newSchema = z.strictObject({ name: secretNameSchema, value: secretValueSchema, allowedOrigins: allowedOriginsSchema });
const valueSchema = z.strictObject({ value: secretValueSchema });
const patchSchema = z.strictObject({ allowedOrigins: allowedOriginsSchema });
const listQuery = z.strictObject(pageQuery('instant'));
const deleteQuery = z.strictObject({ force: z.enum(['true', 'false']).optional() });

/** What is told of a secret; its value never is. */
type SecretRow = { id: string; name: string; allowedOrigins: string[]; createdAt: Date; updatedAt: Date };
type ShownSecret = SecretRow & { usedBy: SecretUser[] };

const COLUMNS = `id, name, allowed_origins AS "allowedOrigins", created_at AS "createdAt", updated_at AS "updatedAt"`;

/** Values that journeys may use and nobody can read again: no route answers with one. */
@ApiTags('secrets')
@Controller('secrets')
export class SecretsController {
  constructor(
    private readonly source: DataSource,
    private readonly catalogue: ActionCatalogue,
    @Inject(SETTINGS) private readonly settings: Settings,
  ) {}

  @Post()
  @ApiOperation({
    summary: 'Store a secret for texts of FORWARD_REQUEST, as {{ secrets.name }}; its value goes to the allowed origins alone and is never shown',
  })
  async create(@Body({ schema: newSchema }) { name, value, allowedOrigins }: z.infer<typeof newSchema>): Promise<ShownSecret> {
    const id = newId();
    const made = await change(this.source, 'INSERT INTO secrets (id, name, sealed, allowed_origins) VALUES ($1, $2, $3, $4) ON CONFLICT (name) DO NOTHING', [
      id,
      name,
      sealValue(value, id, this.settings.secretKey),
      JSON.stringify(allowedOrigins),
    ]);
    if (made === 0)
      throw new Problem('conflict', 'There is a secret of this name already', { errors: [{ path: 'name', message: 'belongs to another secret' }] });
    return this.get(id);
  }

  @Get()
  @ApiOperation({ summary: 'List secrets, newest first, without their values' })
  async list(@Query({ schema: listQuery }) page: z.infer<typeof listQuery>) {
    const { where, parameters, ending } = seek(page, { key: 'created_at', id: 'id', kind: 'instant' }, 0);
    const found = await rows<SecretRow & { at: string }>(
      this.source,
      `SELECT ${COLUMNS}, ${instantKey('created_at')} AS at FROM secrets WHERE ${where} ${ending}`,
      parameters,
    );
    const users = await findUsers(this.source, this.catalogue);
    return pageOf(
      found,
      page.limit,
      ({ at, id }) => [at, id],
      ({ at: _at, ...secret }): ShownSecret => ({ ...secret, usedBy: users.get(secret.name) ?? [] }),
    );
  }

  @Get(':id')
  @ApiOperation({ summary: 'One secret without its value, and the published workflows that name it' })
  async get(@Param('id', { schema: uuidSchema }) id: string): Promise<ShownSecret> {
    const secret = await read(this.source, id);
    const users = await findUsers(this.source, this.catalogue);
    return { ...secret, usedBy: users.get(secret.name) ?? [] };
  }

  @Put(':id/value')
  @ApiOperation({ summary: 'Give a secret another value; attempts from now on use it, also of requests made before' })
  async changeValue(@Param('id', { schema: uuidSchema }) id: string, @Body({ schema: valueSchema }) { value }: z.infer<typeof valueSchema>) {
    const sealed = sealValue(value, id, this.settings.secretKey);
    const changed = await change(this.source, 'UPDATE secrets SET sealed = $2, updated_at = now() WHERE id = $1', [id, sealed]);
    if (changed === 0) throw unknownSecret();
    return this.get(id);
  }

  @Patch(':id')
  @ApiOperation({ summary: 'Change where a secret may go; a request to an origin that is left out fails from now on' })
  async update(@Param('id', { schema: uuidSchema }) id: string, @Body({ schema: patchSchema }) { allowedOrigins }: z.infer<typeof patchSchema>) {
    const changed = await change(this.source, 'UPDATE secrets SET allowed_origins = $2, updated_at = now() WHERE id = $1', [
      id,
      JSON.stringify(allowedOrigins),
    ]);
    if (changed === 0) throw unknownSecret();
    return this.get(id);
  }

  @Delete(':id')
  @HttpCode(204)
  @ApiOperation({ summary: 'Delete a secret; refused while an active or paused workflow names it, unless `force=true`: then its requests fail' })
  async delete(@Param('id', { schema: uuidSchema }) id: string, @Query({ schema: deleteQuery }) { force }: z.infer<typeof deleteQuery>): Promise<void> {
    await transact(this.source, async (tx) => {
      // Waits for whoever publishes with this secret; what they published is seen by the next statement.
      const { name } = await read(tx, id, 'FOR UPDATE');
      const users = ((await findUsers(tx, this.catalogue)).get(name) ?? []).filter(({ status }) => status === 'active' || status === 'paused');
      if (users.length > 0 && force !== 'true') throw inUse(users);
      await change(tx, 'DELETE FROM secrets WHERE id = $1', [id]);
    });
  }
}

async function read(source: DataSource | Tx, id: string, lock: '' | 'FOR UPDATE' = ''): Promise<SecretRow> {
  const [secret] = await rows<SecretRow>(source, `SELECT ${COLUMNS} FROM secrets WHERE id = $1 ${lock}`, [id]);
  if (!secret) throw unknownSecret();
  return secret;
}

function unknownSecret(): Problem {
  return new Problem('not_found', 'There is no secret with this id');
}

function inUse(users: readonly SecretUser[]): Problem {
  const named = users.map(({ id, name }) => `"${name}" (${id})`).join(', ');
  return new Problem('conflict', `The secret is used by ${named}; delete it all the same with force=true`, {
    errors: users.map(({ id, name }) => ({ path: 'id', message: `is used by the workflow "${name}" (${id})` })),
  });
}
