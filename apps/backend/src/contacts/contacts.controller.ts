import { Body, Controller, Delete, Get, HttpCode, HttpStatus, Param, Patch, Post, Query, Res } from '@nestjs/common';
import { ApiBody, ApiConsumes, ApiOperation, ApiTags } from '@nestjs/swagger';
import type { FastifyReply } from 'fastify';
import { DataSource } from 'typeorm';
import { z } from 'zod';
import { transactAndTell } from '../database/outbox.js';
import { change } from '../database/sql.js';
import { EventBus } from '../events/event-bus.js';
import { CSV_BODY, TakesBody } from '../http/body-kind.js';
import { pageQuery } from '../http/page.js';
import { invalidField, Problem } from '../http/problem.js';
import { uuidSchema } from '../http/uuid.js';
import { Queues } from '../operations/queues.js';
import { addTag, addTags } from './add-tag.js';
import { attributesSchema, emailSchema, externalIdSchema, MAX_ATTRIBUTES, tagSchema, taggedContactSchema } from './contact-input.js';
import { importContacts } from './import-contacts.js';
import { CSV_DELIMITERS } from './read-csv.js';
import { listContacts, readContact, type ShownContact } from './read-contact.js';
import { removeTag } from './remove-tag.js';
import { updateContact } from './update-contact.js';
import { upsertContact } from './upsert-contact.js';

const patchSchema = z.strictObject({
  externalId: externalIdSchema.nullable().optional(),
  email: emailSchema.nullable().optional(),
  attributes: attributesSchema.optional(),
});
const tagBody = z.strictObject({ tag: tagSchema });
const listQuery = z.strictObject({
  ...pageQuery('instant'),
  /** Found whatever the case it is written in. */
  email: z.string().max(320).toLowerCase().optional(),
  externalId: z.string().max(200).optional(),
  tag: z.string().max(100).optional(),
  list: uuidSchema.optional(),
});
const importQuery = z.strictObject({
  list: uuidSchema.optional(),
  tag: tagSchema.optional(),
  delimiter: z.enum(['auto', ...(Object.keys(CSV_DELIMITERS) as (keyof typeof CSV_DELIMITERS)[])]).default('auto'),
});

@ApiTags('contacts')
@Controller('contacts')
export class ContactsController {
  constructor(
    private readonly source: DataSource,
    private readonly bus: EventBus,
    private readonly queues: Queues,
  ) {}

  @Post()
  @ApiOperation({ summary: 'Make a contact, or merge into the one that is meant: by externalId, else by email' })
  async upsert(@Body({ schema: taggedContactSchema }) body: z.infer<typeof taggedContactSchema>, @Res({ passthrough: true }) response: FastifyReply) {
    const { tags = [], ...input } = body;
    const { id, created } = await transactAndTell(this.source, this.queues, async (tx) => {
      const upsert = await upsertContact(tx, this.bus, input);
      await addTags(tx, this.bus, { contactIds: [upsert.contact.id], tags: [...new Set(tags)] });
      return { id: upsert.contact.id, created: upsert.created };
    });
    response.status(created ? HttpStatus.CREATED : HttpStatus.OK);
    return this.shown(id);
  }

  @Get()
  @ApiOperation({ summary: 'List contacts, newest first' })
  list(@Query({ schema: listQuery }) query: z.infer<typeof listQuery>) {
    return listContacts(this.source, query, query);
  }

  @Post('import')
  @TakesBody(CSV_BODY)
  @HttpCode(200)
  @ApiConsumes('text/csv')
  @ApiBody({ schema: { type: 'string' } })
  @ApiOperation({ summary: 'Import contacts from CSV: a header row, columns email and external_id, every other an attribute' })
  async import(@Body() bytes: unknown, @Query({ schema: importQuery }) { list, tag, delimiter }: z.infer<typeof importQuery>) {
    if (!Buffer.isBuffer(bytes)) throw new Problem('malformed', 'The body is empty');
    return importContacts({ source: this.source, bus: this.bus, teller: this.queues }, bytes, { listId: list, tag, delimiter });
  }

  @Get(':id')
  @ApiOperation({ summary: 'One contact, with its tags and lists' })
  get(@Param('id', { schema: uuidSchema }) id: string): Promise<ShownContact> {
    return this.shown(id);
  }

  @Patch(':id')
  @ApiOperation({ summary: 'Change a contact; null takes an identity or an attribute away' })
  async update(@Param('id', { schema: uuidSchema }) id: string, @Body({ schema: patchSchema }) patch: z.infer<typeof patchSchema>): Promise<ShownContact> {
    const update = await transactAndTell(this.source, this.queues, (tx) => updateContact(tx, this.bus, { contactId: id, patch }));
    switch (update.kind) {
      case 'updated':
        return this.shown(id);
      case 'contact_missing':
        throw unknownContact();
      case 'identity_missing':
        throw new Problem('unprocessable', 'A contact needs an externalId or an email');
      case 'identity_taken':
        throw new Problem('conflict', `Another contact has this ${update.field}`, { errors: [{ path: update.field, message: 'belongs to another contact' }] });
      case 'too_many_attributes':
        throw new Problem('unprocessable', `A contact has at most ${MAX_ATTRIBUTES} attributes`);
    }
  }

  @Delete(':id')
  @HttpCode(204)
  @ApiOperation({ summary: 'Delete a contact with its tags and memberships; its runs and their history stay' })
  async delete(@Param('id', { schema: uuidSchema }) id: string): Promise<void> {
    if ((await change(this.source, 'DELETE FROM contacts WHERE id = $1', [id])) === 0) throw unknownContact();
  }

  @Post(':id/tags')
  @HttpCode(200)
  @ApiOperation({ summary: 'Tag a contact' })
  async addTag(@Param('id', { schema: uuidSchema }) id: string, @Body({ schema: tagBody }) { tag }: z.infer<typeof tagBody>) {
    const { kind } = await transactAndTell(this.source, this.queues, (tx) => addTag(tx, this.bus, { contactId: id, tag }));
    if (kind === 'contact_missing') throw unknownContact();
    return { tag, changed: kind === 'changed' };
  }

  @Delete(':id/tags/:tag')
  @ApiOperation({ summary: 'Take a tag off a contact' })
  async removeTag(@Param('id', { schema: uuidSchema }) id: string, @Param('tag') tag: string) {
    if (tag.includes('\0')) throw invalidField('tag', 'holds a NUL character');
    const { kind } = await transactAndTell(this.source, this.queues, (tx) => removeTag(tx, this.bus, { contactId: id, tag }));
    if (kind === 'contact_missing') throw unknownContact();
    return { tag, changed: kind === 'changed' };
  }

  private async shown(id: string): Promise<ShownContact> {
    const contact = await readContact(this.source, id);
    if (!contact) throw unknownContact();
    return contact;
  }
}

function unknownContact(): Problem {
  return new Problem('not_found', 'There is no contact with this id');
}
