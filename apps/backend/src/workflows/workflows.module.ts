import { Module } from '@nestjs/common';
import { VersionReader } from './read-version.js';
import { WorkflowsController } from './workflows.controller.js';

/** Needs the action catalogue from a module that exports it everywhere. */
@Module({ controllers: [WorkflowsController], providers: [VersionReader], exports: [VersionReader] })
export class WorkflowsModule {}
