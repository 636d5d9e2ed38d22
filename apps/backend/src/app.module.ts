import { type DynamicModule, Global, Module } from '@nestjs/common';
import { TypeOrmModule } from '@nestjs/typeorm';
import type { DataSource } from 'typeorm';
import { AccessModule } from './access/access.module.js';
import { ActionsModule } from './actions/actions.module.js';
import { ContactsModule } from './contacts/contacts.module.js';
import { VITAL_SOURCE } from './database/data-source.js';
import { EventsModule } from './events/events.module.js';
import { MailModule } from './mail/mail.module.js';
import { HealthController } from './operations/health.controller.js';
import { OperationsModule } from './operations/operations.module.js';
import { TestClockController } from './operations/test-clock.js';
import { RunsModule } from './runs/runs.module.js';
import { RuntimeModule } from './runtime/runtime.module.js';
import { SecretsModule } from './secrets/secrets.module.js';
import { SETTINGS, type Settings } from './settings.js';
import { SweeperModule } from './sweeper/sweeper.module.js';
import { TargetsModule } from './targets/targets.module.js';
import { TemplatesModule } from './templates/templates.module.js';
import { EventTriggerModule } from './triggers/event/event-trigger.module.js';
import { WorkflowsModule } from './workflows/workflows.module.js';

@Global()
@Module({})
class SettingsModule {
  static of(settings: Settings, vital: DataSource): DynamicModule {
    const providers = [
      { provide: SETTINGS, useValue: settings },
      { provide: VITAL_SOURCE, useValue: vital },
    ];
    return { module: SettingsModule, providers, exports: [SETTINGS, VITAL_SOURCE] };
  }
}

/** The whole backend over a database that is connected and migrated already. */
@Module({})
export class AppModule {
  static of(settings: Settings, source: DataSource, vital: DataSource): DynamicModule {
    return {
      module: AppModule,
      imports: [
        SettingsModule.of(settings, vital),
        TypeOrmModule.forRootAsync({ useFactory: () => source.options, dataSourceFactory: () => Promise.resolve(source) }),
        OperationsModule,
        EventsModule,
        ActionsModule,
        AccessModule,
        ContactsModule,
        TemplatesModule,
        SecretsModule,
        WorkflowsModule,
        RuntimeModule,
        RunsModule,
        MailModule,
        EventTriggerModule,
        TargetsModule,
        SweeperModule,
      ],
      controllers: [HealthController, ...(settings.hasTestClock ? [TestClockController] : [])],
    };
  }
}
