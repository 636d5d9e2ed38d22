import { Body, Controller, Delete, Get, Headers, HttpCode, Param, Patch, Post, Query } from '@nestjs/common';
import { ApiHeader, ApiOperation, ApiTags } from '@nestjs/swagger';
import type { Json } from '@onward/contracts/json';
import { DataSource } from 'typeorm';
import { z } from 'zod';
import { newId } from '../database/new-id.js';
import { change, rows, transact, type Tx } from '../database/sql.js';
import { instantKey, pageOf, pageQuery, seek } from '../http/page.js';
import { type FieldError, Problem } from '../http/problem.js';
import { readContact } from '../runtime/read-scope.js';
import { readIfMatch } from '../http/read-if-match.js';
import { uuidSchema } from '../http/uuid.js';
import { checkTemplate } from './check-template.js';
import { fill, fillMail, TemplateError } from './fill.js';
import { MAX_TEMPLATE_CHARACTERS } from './liquid-engine.js';

const partSchema = z.string().min(1).max(MAX_TEMPLATE_CHARACTERS);
const fields = {
  name: z.string().trim().min(1).max(200),
  subject: z.string().min(1).max(2_000),
  html: partSchema.nullable(),
  text: partSchema.nullable(),
  replyTo: z.string().min(1).max(1_000).nullable(),
  isTransactional: z.boolean(),
};
const newSchema = z.strictObject({
  ...fields,
  html: fields.html.default(null),
  text: fields.text.default(null),
  replyTo: fields.replyTo.default(null),
  isTransactional: fields.isTransactional.default(false),
});
const patchSchema = z.strictObject(fields).partial();
const listQuery = z.strictObject(pageQuery('instant'));
const previewSchema = z.strictObject({ contactId: uuidSchema.optional(), event: z.record(z.string(), z.unknown()).optional() });

/** Previews under way at once. Filling holds up the whole process, so that more of them would starve everything else. */
const MAX_PREVIEWS = 2;

type ShownTemplate = {
  id: string;
  name: string;
  isTransactional: boolean;
  subject: string;
  html: string | null;
  text: string | null;
  replyTo: string | null;
  revision: number;
  createdAt: Date;
  updatedAt: Date;
};

const COLUMNS = `id, name, is_transactional AS "isTransactional", subject, html, text, reply_to AS "replyTo", revision, created_at AS "createdAt", updated_at AS "updatedAt"`;

@ApiTags('templates')
@Controller('templates')
export class TemplatesController {
  private previews = 0;

  constructor(private readonly source: DataSource) {}

  @Post()
  @ApiOperation({ summary: 'Make a mail template in Liquid; warnings name variables that nothing fills' })
  async create(@Body({ schema: newSchema }) body: z.infer<typeof newSchema>) {
    const warnings = accepted(body);
    const id = newId();
    const made = await change(
      this.source,
      `INSERT INTO templates (id, name, is_transactional, subject, html, text, reply_to) VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT (name) DO NOTHING`,
      [id, body.name, body.isTransactional, body.subject, body.html, body.text, body.replyTo],
    );
    if (made === 0) throw nameTaken();
    return { ...(await read(this.source, id)), warnings };
  }

  @Get()
  @ApiOperation({ summary: 'List templates, newest first' })
  async list(@Query({ schema: listQuery }) page: z.infer<typeof listQuery>) {
    const { where, parameters, ending } = seek(page, { key: 'created_at', id: 'id', kind: 'instant' }, 0);
    const found = await rows<ShownTemplate & { at: string }>(
      this.source,
      `SELECT ${COLUMNS}, ${instantKey('created_at')} AS at FROM templates WHERE ${where} ${ending}`,
      parameters,
    );
    return pageOf(
      found,
      page.limit,
      ({ at, id }) => [at, id],
      ({ at: _at, ...template }) => template,
    );
  }

  @Get(':id')
  @ApiOperation({ summary: 'One template' })
  get(@Param('id', { schema: uuidSchema }) id: string): Promise<ShownTemplate> {
    return read(this.source, id);
  }

  @Patch(':id')
  @ApiHeader({ name: 'if-match', required: false, description: 'The revision that was read, such as "3"' })
  @ApiOperation({
    summary: 'Change a template; steps that are filled afterwards use it. If-Match with its revision refuses to overwrite a change of somebody else',
  })
  update(
    @Param('id', { schema: uuidSchema }) id: string,
    @Body({ schema: patchSchema }) patch: z.infer<typeof patchSchema>,
    @Headers('if-match') ifMatch: string | undefined,
  ) {
    const expected = readIfMatch(ifMatch);
    return transact(this.source, async (tx) => {
      const present = await read(tx, id, 'FOR UPDATE');
      if (expected !== undefined && expected !== present.revision) throw new Problem('conflict', `The template is at revision ${present.revision} by now`);
      const given = Object.fromEntries(Object.entries(patch).filter(([, value]) => value !== undefined)) as Partial<ShownTemplate>;
      const changed: ShownTemplate = { ...present, ...given };
      const warnings = accepted(changed);
      const [taken] = await rows(tx, 'SELECT 1 FROM templates WHERE name = $2 AND id <> $1', [id, changed.name]);
      if (taken) throw nameTaken();
      await change(
        tx,
        `UPDATE templates SET name = $2, is_transactional = $3, subject = $4, html = $5, text = $6, reply_to = $7, revision = revision + 1, updated_at = now() WHERE id = $1`,
        [id, changed.name, changed.isTransactional, changed.subject, changed.html, changed.text, changed.replyTo],
      );
      return { ...(await read(tx, id)), warnings };
    });
  }

  @Delete(':id')
  @HttpCode(204)
  @ApiOperation({ summary: 'Delete a template; steps that need it fail from then on' })
  async delete(@Param('id', { schema: uuidSchema }) id: string): Promise<void> {
    if ((await change(this.source, 'DELETE FROM templates WHERE id = $1', [id])) === 0) throw unknownTemplate();
  }

  @Post(':id/preview')
  @HttpCode(200)
  @ApiOperation({ summary: 'Fill a template as sending would, for a contact and a made-up event' })
  async preview(@Param('id', { schema: uuidSchema }) id: string, @Body({ schema: previewSchema }) asked: z.infer<typeof previewSchema>) {
    if (this.previews >= MAX_PREVIEWS) throw new Problem('conflict', `${MAX_PREVIEWS} previews are under way; ask again`, { retryAfterSeconds: 1 });
    this.previews += 1;
    try {
      return await this.fillPreview(id, asked);
    } finally {
      this.previews -= 1;
    }
  }

  private fillPreview(id: string, { contactId, event = {} }: z.infer<typeof previewSchema>) {
    return transact(this.source, async (tx) => {
      const template = await read(tx, id);
      const contact = contactId === undefined ? null : await readContact(tx, contactId);
      if (contactId !== undefined && !contact)
        throw new Problem('unprocessable', 'There is no contact with this id', { errors: [{ path: 'contactId', message: 'is not known' }] });
      const shown = contact && {
        id: contact.id,
        externalId: contact.externalId,
        email: contact.email,
        attributes: contact.attributes,
        tags: contact.tags,
        lists: contact.lists,
      };
      const scope = { contact: shown, event: event as { [key: string]: Json }, context: {}, steps: {}, run: {}, workflow: {} };
      try {
        return { ...fillMail(template, scope), replyTo: template.replyTo === null ? null : fill(template.replyTo, scope, 'header').trim() };
      } catch (error) {
        if (error instanceof TemplateError) throw new Problem('unprocessable', `The template cannot be filled: ${error.message}`);
        throw error;
      }
    });
  }
}

async function read(source: DataSource | Tx, id: string, lock: '' | 'FOR UPDATE' = ''): Promise<ShownTemplate> {
  const [template] = await rows<ShownTemplate>(source, `SELECT ${COLUMNS} FROM templates WHERE id = $1 ${lock}`, [id]);
  if (!template) throw unknownTemplate();
  return template;
}

/** Refuses a template that could not be filled; answers the warnings of one that can. */
function accepted({ subject, html, text, replyTo }: Pick<ShownTemplate, 'subject' | 'html' | 'text' | 'replyTo'>): FieldError[] {
  const { errors, warnings } = checkTemplate({ subject, html, text, replyTo });
  if (errors.length > 0) throw new Problem('invalid', `${errors[0]?.path}: ${errors[0]?.message}`, { errors });
  return warnings;
}

function unknownTemplate(): Problem {
  return new Problem('not_found', 'There is no template with this id');
}

function nameTaken(): Problem {
  return new Problem('conflict', 'There is a template of this name already', { errors: [{ path: 'name', message: 'belongs to another template' }] });
}
