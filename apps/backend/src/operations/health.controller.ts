import { Controller, Get, HttpStatus, Inject, Res } from '@nestjs/common';
import { ApiOperation, ApiTags } from '@nestjs/swagger';
import type { FastifyReply } from 'fastify';
import { DataSource } from 'typeorm';
import { Public } from '../access/public.js';
import { VITAL_SOURCE } from '../database/data-source.js';
import { rows } from '../database/sql.js';
import { Drain } from './drain.js';
import { Queues } from './queues.js';
import { Workers } from './workers.js';

/** Who asks whether we are ready is answered within this time, in ms, whatever Postgres does. */
const READY_WITHIN_MS = 2_000;

type Found = { ok: boolean; detail: string; workers?: { workers: number; runsInHand: number } };

/**
 * Is the process alive, and may traffic be sent to it? Without Postgres nothing can be accepted: not ready. Without Valkey everything is
 * accepted and moves later: ready, but degraded. With a Valkey that may throw entries away: not ready, loudly.
 */
@ApiTags('health')
@Controller('health')
@Public()
export class HealthController {
  constructor(
    @Inject(VITAL_SOURCE) private readonly source: DataSource,
    private readonly queues: Queues,
    private readonly drain: Drain,
    private readonly workers: Workers,
  ) {}

  @Get()
  @ApiOperation({ summary: 'The process is alive' })
  live(): { status: 'alive' } {
    return { status: 'alive' };
  }

  @Get('ready')
  @ApiOperation({ summary: 'The process can take traffic' })
  async ready(@Res({ passthrough: true }) response: FastifyReply) {
    const [postgres, valkey] = await Promise.all([this.postgres(), this.queues.health()]);
    const isEvicting = !valkey.ok && valkey.detail.startsWith('maxmemory-policy');
    const isReady = postgres.ok && !isEvicting && !this.drain.isDraining;
    const status = !isReady ? 'not_ready' : valkey.ok ? 'ready' : 'degraded';
    response.status(isReady ? HttpStatus.OK : HttpStatus.SERVICE_UNAVAILABLE);
    return { status, postgres: postgres.detail, valkey: valkey.detail, ...postgres.workers, ...(this.drain.isDraining ? { draining: true } : {}) };
  }

  private async postgres(): Promise<Found> {
    const asked = Promise.all([
      rows<{ readOnly: string }>(this.source, `SELECT current_setting('transaction_read_only') AS "readOnly"`),
      this.workers.summary(),
    ]).then(
      ([[found], workers]): Found => (found?.readOnly === 'off' ? { ok: true, detail: 'reachable', workers } : { ok: false, detail: 'read-only', workers }),
      (error: unknown): Found => ({ ok: false, detail: error instanceof Error ? error.message : String(error) }),
    );
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<Found>((resolve) => {
      timer = setTimeout(() => resolve({ ok: false, detail: `no answer within ${READY_WITHIN_MS} ms` }), READY_WITHIN_MS);
    });
    return Promise.race([asked, late]).finally(() => clearTimeout(timer));
  }
}
