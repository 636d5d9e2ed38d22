import { Body, Controller, Delete, Get, HttpCode, Param, Patch, Post, Query } from '@nestjs/common';
import { ApiOperation, ApiTags } from '@nestjs/swagger';
import { DataSource } from 'typeorm';
import { z } from 'zod';
import { newId } from '../database/new-id.js';
import { transactAndTell } from '../database/outbox.js';
import { change, rows, type Tx } from '../database/sql.js';
import { EventBus } from '../events/event-bus.js';
import { instantKey, pageOf, pageQuery, seek } from '../http/page.js';
import { Problem } from '../http/problem.js';
import { uuidSchema } from '../http/uuid.js';
import { Queues } from '../operations/queues.js';
import { listNameSchema } from './contact-input.js';
import { type FoundList, findList } from './find-list.js';
import { joinList } from './join-list.js';
import { leaveList } from './leave-list.js';

const MAX_ADDED_AT_ONCE = 500;

const listBody = z.strictObject({ name: listNameSchema });
const membersBody = z.strictObject({ contactIds: z.array(uuidSchema).min(1).max(MAX_ADDED_AT_ONCE) });
const pageOnly = z.strictObject(pageQuery('instant'));

type ListRow = { id: string; name: string; memberCount: number; createdAt: Date; at: string };
type MemberRow = { id: string; externalId: string | null; email: string | null; addedAt: Date; at: string };

const LIST_COLUMNS = `id, name, (SELECT count(*)::int FROM list_members WHERE list_id = lists.id) AS "memberCount", created_at AS "createdAt", ${instantKey('created_at')} AS at`;

@ApiTags('lists')
@Controller('lists')
export class ListsController {
  constructor(
    private readonly source: DataSource,
    private readonly bus: EventBus,
    private readonly queues: Queues,
  ) {}

  @Post()
  @ApiOperation({ summary: 'Make a list; its name is its own' })
  async create(@Body({ schema: listBody }) { name }: z.infer<typeof listBody>) {
    const id = newId();
    const made = await change(this.source, 'INSERT INTO lists (id, name) VALUES ($1, $2) ON CONFLICT (name) DO NOTHING', [id, name]);
    if (made === 0) throw nameTaken();
    return this.shown(id);
  }

  @Get()
  @ApiOperation({ summary: 'List lists, newest first, each with how many are on it' })
  async list(@Query({ schema: pageOnly }) page: z.infer<typeof pageOnly>) {
    const { where, parameters, ending } = seek(page, { key: 'created_at', id: 'id', kind: 'instant' }, 0);
    const found = await rows<ListRow>(this.source, `SELECT ${LIST_COLUMNS} FROM lists WHERE ${where} ${ending}`, parameters);
    return pageOf(found, page.limit, ({ at, id }) => [at, id], show);
  }

  @Get(':id')
  @ApiOperation({ summary: 'One list' })
  get(@Param('id', { schema: uuidSchema }) id: string) {
    return this.shown(id);
  }

  @Patch(':id')
  @ApiOperation({ summary: 'Rename a list' })
  async rename(@Param('id', { schema: uuidSchema }) id: string, @Body({ schema: listBody }) { name }: z.infer<typeof listBody>) {
    const [taken] = await rows(this.source, 'SELECT 1 FROM lists WHERE name = $2 AND id <> $1', [id, name]);
    if (taken) throw nameTaken();
    await change(this.source, 'UPDATE lists SET name = $2 WHERE id = $1', [id, name]);
    return this.shown(id);
  }

  @Delete(':id')
  @HttpCode(204)
  @ApiOperation({ summary: 'Delete a list; its contacts stay' })
  async delete(@Param('id', { schema: uuidSchema }) id: string): Promise<void> {
    if ((await change(this.source, 'DELETE FROM lists WHERE id = $1', [id])) === 0) throw unknownList();
  }

  @Get(':id/members')
  @ApiOperation({ summary: 'Who is on a list, the latest first' })
  async members(@Param('id', { schema: uuidSchema }) id: string, @Query({ schema: pageOnly }) page: z.infer<typeof pageOnly>) {
    await this.shown(id);
    const { where, parameters, ending } = seek(page, { key: 'added_at', id: 'contact_id', kind: 'instant' }, 1);
    const found = await rows<MemberRow>(
      this.source,
      `SELECT contact_id AS id, external_id AS "externalId", email, added_at AS "addedAt", ${instantKey('added_at')} AS at
       FROM list_members JOIN contacts ON contacts.id = contact_id WHERE list_id = $1 AND ${where} ${ending}`,
      [id, ...parameters],
    );
    return pageOf(
      found,
      page.limit,
      (member) => [member.at, member.id],
      ({ at: _at, ...member }) => member,
    );
  }

  @Post(':id/members')
  @HttpCode(200)
  @ApiOperation({ summary: 'Put contacts on a list; answers who joined and which ids are not known' })
  addMembers(@Param('id', { schema: uuidSchema }) id: string, @Body({ schema: membersBody }) { contactIds }: z.infer<typeof membersBody>) {
    return transactAndTell(this.source, this.queues, async (tx) => {
      const list = await this.hold(tx, id);
      const asked = [...new Set(contactIds.map((contactId) => contactId.toLowerCase()))];
      const known = (await rows<{ id: string }>(tx, 'SELECT id FROM contacts WHERE id = ANY ($1::uuid[]) ORDER BY id FOR KEY SHARE', [asked])).map(
        (contact) => contact.id,
      );
      return { joined: await joinList(tx, this.bus, { list, contactIds: known }), unknown: asked.filter((contactId) => !known.includes(contactId)) };
    });
  }

  @Delete(':id/members/:contactId')
  @ApiOperation({ summary: 'Take a contact off a list' })
  removeMember(@Param('id', { schema: uuidSchema }) id: string, @Param('contactId', { schema: uuidSchema }) contactId: string) {
    return transactAndTell(this.source, this.queues, async (tx) => ({ left: await leaveList(tx, this.bus, { list: await this.hold(tx, id), contactId }) }));
  }

  private async hold(tx: Tx, id: string): Promise<FoundList> {
    const list = await findList(tx, id);
    if (!list || list.id !== id.toLowerCase()) throw unknownList();
    return list;
  }

  private async shown(id: string) {
    const [list] = await rows<ListRow>(this.source, `SELECT ${LIST_COLUMNS} FROM lists WHERE id = $1`, [id]);
    if (!list) throw unknownList();
    return show(list);
  }
}

function show({ at: _at, ...list }: ListRow) {
  return list;
}

function unknownList(): Problem {
  return new Problem('not_found', 'There is no list with this id');
}

function nameTaken(): Problem {
  return new Problem('conflict', 'There is a list of this name already', { errors: [{ path: 'name', message: 'belongs to another list' }] });
}
