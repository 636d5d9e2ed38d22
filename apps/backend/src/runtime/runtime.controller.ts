import { FRAME_PATTERN, type Frame, type FrameReply } from '@onward/contracts/frame';
import { RUNTIME_PATTERNS, type RuntimePattern, type RuntimeReply } from '@onward/contracts/patterns';
import { Controller } from '@nestjs/common';
import { Ctx, MessagePattern, Payload } from '@nestjs/microservices';
import { Workers } from '../operations/workers.js';
import { FrameRunner } from './frame-runner.js';

const ALL_13 = Object.keys(RUNTIME_PATTERNS) as RuntimePattern[];

/** The runtime as workers call it: the 13 patterns, each alone or as items of a frame. The functions behind them: handlers.ts. */
@Controller()
export class RuntimeController {
  constructor(
    private readonly runner: FrameRunner,
    private readonly workers: Workers,
  ) {}

  @MessagePattern(FRAME_PATTERN)
  frame(@Payload() frame: Frame): Promise<FrameReply> {
    if (frame.worker) this.workers.note(frame.worker);
    return this.runner.frame(frame.runs);
  }

  @MessagePattern(ALL_13)
  call(@Payload() data: Record<string, unknown>, @Ctx() { pattern }: { pattern: RuntimePattern }): Promise<RuntimeReply> {
    return this.runner.call(pattern, data);
  }
}
