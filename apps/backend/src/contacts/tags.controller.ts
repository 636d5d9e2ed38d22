import { Controller, Get, Query } from '@nestjs/common';
import { ApiOperation, ApiTags } from '@nestjs/swagger';
import { DataSource } from 'typeorm';
import { z } from 'zod';
import { rows } from '../database/sql.js';
import { pageOf, pageQuery, seek } from '../http/page.js';

const listQuery = z.strictObject(pageQuery('text'));

@ApiTags('contacts')
@Controller('tags')
export class TagsController {
  constructor(private readonly source: DataSource) {}

  @Get()
  @ApiOperation({ summary: 'List tags by name, each with how many contacts carry it' })
  async list(@Query({ schema: listQuery }) page: z.infer<typeof listQuery>) {
    const { where, parameters, ending } = seek(page, { key: 'tag', id: 'tag', kind: 'text', order: 'asc' }, 0);
    const found = await rows<{ name: string; count: number }>(
      this.source,
      `SELECT tag AS name, count(*)::int AS count FROM contact_tags WHERE ${where} GROUP BY tag ${ending}`,
      parameters,
    );
    return pageOf(
      found,
      page.limit,
      ({ name }) => [name, name],
      (tag) => tag,
    );
  }
}
