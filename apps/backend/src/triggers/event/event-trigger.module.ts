import { Module } from '@nestjs/common';
import { WorkflowsModule } from '../../workflows/workflows.module.js';
import { EventIntake } from './event-intake.js';
import { EventTrigger } from './event-listener.js';
import { EventsController } from './events.controller.js';

@Module({ imports: [WorkflowsModule], controllers: [EventsController], providers: [EventTrigger, EventIntake] })
export class EventTriggerModule {}
