import { Body, Controller, HttpCode, Inject, Post } from '@nestjs/common';
import { ApiOperation, ApiTags } from '@nestjs/swagger';
import { parseDuration } from '@onward/workflow-graph/due-time';
import { instantSchema } from '@onward/contracts/json';
import { DataSource } from 'typeorm';
import { z } from 'zod';
import { newId } from '../database/new-id.js';
import { rows, transact } from '../database/sql.js';
import { Problem } from '../http/problem.js';
import { SETTINGS, type Settings } from '../settings.js';
import { Sweeper } from '../sweeper/sweeper.js';
import { NOT_PARKED } from '../targets/parked.js';

const clockBody = z.union([z.strictObject({ advance: z.string().max(50) }), z.strictObject({ set: instantSchema })]);

/**
 * Moves the clock of due times, forward only. Served only with ONWARD_TEST_CLOCK, which production refuses. What is due then gets new
 * claimIds, for the queue may hold delayed entries for the old ones; the answer comes after a full sweep.
 */
@ApiTags('test')
@Controller('test/clock')
export class TestClockController {
  constructor(
    private readonly source: DataSource,
    private readonly sweeper: Sweeper,
    @Inject(SETTINGS) private readonly settings: Settings,
  ) {}

  @Post()
  @HttpCode(200)
  @ApiOperation({ summary: 'Move the test clock forward' })
  async move(@Body({ schema: clockBody }) body: z.infer<typeof clockBody>): Promise<{ now: Date }> {
    if (!this.settings.hasTestClock) throw new Problem('not_found', 'There is no test clock');
    await transact(this.source, async (tx) => {
      await rows(tx, `SELECT set_config('onward.test_clock', 'on', true)`);
      const [before] = await rows<{ now: Date }>(tx, 'SELECT onward_now() AS now FROM clock_offset FOR UPDATE');
      if (!before) throw new Error('The clock has no row');
      const aheadMs = 'advance' in body ? lengthOf(body.advance) : Date.parse(body.set) - before.now.getTime();
      if (aheadMs < 0) throw new Problem('invalid', 'The clock moves forward only', { errors: [{ path: 'set', message: 'is in the past' }] });
      await rows(tx, 'UPDATE clock_offset SET offset_ms = offset_ms + $1', [Math.ceil(aheadMs)]);
      const due = await rows<{ id: string }>(tx, `SELECT id FROM runs WHERE due_at <= onward_now() AND ${NOT_PARKED} ORDER BY id FOR UPDATE`);
      await rows(
        tx,
        `UPDATE runs SET claim_id = new.claim_id, woken_at = NULL FROM jsonb_to_recordset($1::jsonb) AS new (id uuid, claim_id uuid) WHERE runs.id = new.id`,
        [JSON.stringify(due.map(({ id }) => ({ id, claim_id: newId() })))],
      );
    });
    await this.sweeper.sweepFully();
    const [after] = await rows<{ now: Date }>(this.source, 'SELECT onward_now() AS now');
    return { now: after?.now ?? new Date() };
  }
}

function lengthOf(written: string): number {
  const duration = parseDuration(written);
  if (!duration.ok || duration.months !== 0)
    throw new Problem('invalid', 'The clock cannot be moved so', {
      errors: [{ path: 'advance', message: duration.ok ? 'must be of days or shorter units' : duration.reason }],
    });
  return duration.days * 86_400_000 + duration.milliseconds;
}
