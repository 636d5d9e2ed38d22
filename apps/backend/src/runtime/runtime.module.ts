import { Module } from '@nestjs/common';
import { WorkflowsModule } from '../workflows/workflows.module.js';
import { FrameRunner } from './frame-runner.js';
import { RuntimeController } from './runtime.controller.js';
import { RuntimeKit } from './runtime-kit.js';

@Module({ imports: [WorkflowsModule], controllers: [RuntimeController], providers: [FrameRunner, RuntimeKit], exports: [RuntimeKit] })
export class RuntimeModule {}
