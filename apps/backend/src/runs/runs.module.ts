import { Module } from '@nestjs/common';
import { WorkflowsModule } from '../workflows/workflows.module.js';
import { RunsController } from './runs.controller.js';

@Module({ imports: [WorkflowsModule], controllers: [RunsController] })
export class RunsModule {}
