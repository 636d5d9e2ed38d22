import { FRAME_PATTERN, type Frame, type FrameReply, type WorkerGauges } from '@onward/contracts/frame';
import { RUNTIME_PATTERNS, type RuntimePattern, type RuntimeReply } from '@onward/contracts/patterns';
import { Controller, Inject } from '@nestjs/common';
import { Ctx, MessagePattern, Payload } from '@nestjs/microservices';
import type { Logger } from 'pino';
import type { DataSource } from 'typeorm';
import { VITAL_SOURCE } from '../database/data-source.js';
import { isUnavailable } from '../database/is-unavailable.js';
import { LOGGER } from '../operations/logger.js';
import { Workers } from '../operations/workers.js';
import { SETTINGS, type Settings } from '../settings.js';
import { noteReports } from '../targets/note-reports.js';
import { FrameRunner } from './frame-runner.js';

const ALL_13 = Object.keys(RUNTIME_PATTERNS) as RuntimePattern[];

/** The runtime as workers call it: the 13 patterns, each alone or as items of a frame. The functions behind them: handlers.ts. */
@Controller()
export class RuntimeController {
  constructor(
    private readonly runner: FrameRunner,
    private readonly workers: Workers,
    @Inject(VITAL_SOURCE) private readonly vital: DataSource,
    @Inject(SETTINGS) private readonly settings: Settings,
    @Inject(LOGGER) private readonly log: Logger,
  ) {}

  @MessagePattern(FRAME_PATTERN)
  async frame(@Payload() { worker, ...frame }: Frame, @Ctx() { isAsked }: { isAsked: () => boolean }): Promise<FrameReply> {
    const [workers, answer] = await Promise.all([worker && this.note(worker), this.runner.frame(frame, isAsked)]);
    return { ...answer, ...(workers ? { workers } : {}) };
  }

  /** What a worker says of itself is a view: that it could not be kept fails no frame. */
  private async note(worker: WorkerGauges): Promise<number | undefined> {
    try {
      const [count] = await Promise.all([this.workers.note(worker), noteReports(this.vital, worker.targets, this.settings.breakerResetMs)]);
      return count;
    } catch (error) {
      if (!isUnavailable(error)) this.log.warn({ err: error }, 'what a worker says of itself could not be kept');
      return undefined;
    }
  }

  @MessagePattern(ALL_13)
  call(@Payload() data: Record<string, unknown>, @Ctx() { pattern }: { pattern: RuntimePattern }): Promise<RuntimeReply> {
    return this.runner.call(pattern, data);
  }
}
