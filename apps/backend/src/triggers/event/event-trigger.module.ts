import { Module } from '@nestjs/common';
import { WorkflowsModule } from '../../workflows/workflows.module.js';
import { EventTrigger } from './event-listener.js';
import { EventsController } from './events.controller.js';

@Module({ imports: [WorkflowsModule], controllers: [EventsController], providers: [EventTrigger] })
export class EventTriggerModule {}
