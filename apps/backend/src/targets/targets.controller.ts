import { Body, Controller, Get, HttpCode, Inject, Param, Patch, Post, Query } from '@nestjs/common';
import { ApiOperation, ApiTags } from '@nestjs/swagger';
import { DataSource } from 'typeorm';
import { z } from 'zod';
import { newId } from '../database/new-id.js';
import { change, rows, transact } from '../database/sql.js';
import { pageQuery } from '../http/page.js';
import { Problem } from '../http/problem.js';
import { uuidSchema } from '../http/uuid.js';
import { SETTINGS, type Settings } from '../settings.js';
import { changeTarget, later, type TargetChange } from './change-target.js';
import { lockTarget } from './lock-target.js';
import { moveParked } from './move-parked.js';
import { originText } from './origin-text.js';
import { getTarget, listTargets } from './read-targets.js';
import type { Target } from './target.entity.js';

const limits = {
  ratePerSecond: z.number().min(0.001).max(10_000).nullable().optional(),
  maxConcurrent: z.number().int().min(1).max(10_000).nullable().optional(),
};
const targetBody = z.strictObject({ origin: originText, ...limits });
const limitsBody = z.strictObject(limits);
const pageOnly = z.strictObject(pageQuery('instant'));

/** Where outbound requests go, how each target is found, and what an operator may say about it. */
@ApiTags('targets')
@Controller('targets')
export class TargetsController {
  constructor(
    private readonly source: DataSource,
    @Inject(SETTINGS) private readonly settings: Settings,
  ) {}

  @Get()
  @ApiOperation({ summary: 'List targets, the newest first, each with its state, how many runs wait for it, and how the workers find it' })
  list(@Query({ schema: pageOnly }) page: z.infer<typeof pageOnly>) {
    return listTargets(this.source, page);
  }

  @Get(':id')
  @ApiOperation({ summary: 'One target' })
  get(@Param('id', { schema: uuidSchema }) id: string) {
    return this.show(id);
  }

  @Post()
  @ApiOperation({ summary: 'Name a target before anything was sent to it, to give it limits' })
  async create(@Body({ schema: targetBody }) { origin, ratePerSecond = null, maxConcurrent = null }: z.infer<typeof targetBody>) {
    const id = newId();
    const made = await change(
      this.source,
      'INSERT INTO targets (id, origin, rate_per_second, max_concurrent) VALUES ($1, $2, $3, $4) ON CONFLICT (origin) DO NOTHING',
      [id, origin, ratePerSecond, maxConcurrent],
    );
    if (made === 0) {
      const [there] = await rows<{ id: string }>(this.source, 'SELECT id FROM targets WHERE origin = $1', [origin]);
      throw new Problem('conflict', `The target ${origin} is there already: ${there?.id}`, { errors: [{ path: 'origin', message: 'is there already' }] });
    }
    return this.show(id);
  }

  @Patch(':id')
  @ApiOperation({ summary: 'Change the limits of a target; null takes one away' })
  async limit(@Param('id', { schema: uuidSchema }) id: string, @Body({ schema: limitsBody }) body: z.infer<typeof limitsBody>) {
    await change(
      this.source,
      `UPDATE targets SET rate_per_second = CASE WHEN $2 THEN $3 ELSE rate_per_second END, max_concurrent = CASE WHEN $4 THEN $5 ELSE max_concurrent END
       WHERE id = $1`,
      [id, body.ratePerSecond !== undefined, body.ratePerSecond ?? null, body.maxConcurrent !== undefined, body.maxConcurrent ?? null],
    );
    return this.show(id);
  }

  @Post(':id/open')
  @HttpCode(200)
  @ApiOperation({ summary: 'Stop sending to a target for as long as a breaker would; then one request tries it' })
  open(@Param('id', { schema: uuidSchema }) id: string) {
    return this.move(id, (target, now) => {
      if (target.state === 'paused') throw new Problem('conflict', `The target ${target.origin} is paused; only closing it ends that`);
      return { state: 'open', until: later(now, this.settings.breakerResetMs), why: 'opened by an operator' };
    });
  }

  @Post(':id/close')
  @HttpCode(200)
  @ApiOperation({ summary: 'Send to a target again, whatever was found before; what waits for it goes on at its pace' })
  close(@Param('id', { schema: uuidSchema }) id: string) {
    return this.move(id, () => ({ state: 'closed' }));
  }

  @Post(':id/pause')
  @HttpCode(200)
  @ApiOperation({ summary: 'Stop sending to a target until somebody closes it' })
  pause(@Param('id', { schema: uuidSchema }) id: string) {
    return this.move(id, () => ({ state: 'paused', why: 'paused by an operator' }));
  }

  private async move(id: string, decide: (target: Target, now: Date) => TargetChange) {
    await transact(this.source, async (tx) => {
      const target = await lockTarget(tx, { id });
      if (!target) throw new Problem('not_found', `There is no target ${id}`);
      const [clock] = await rows<{ now: Date }>(tx, 'SELECT onward_now() AS now');
      await changeTarget(tx, id, decide(target, clock?.now ?? new Date()));
      await moveParked(tx, id);
    });
    return this.show(id);
  }

  private async show(id: string) {
    const target = await getTarget(this.source, id);
    if (!target) throw new Problem('not_found', `There is no target ${id}`);
    return target;
  }
}
