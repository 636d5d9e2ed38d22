import { Global, Module } from '@nestjs/common';
import { FailPoints } from '@onward/wire/fail-points';
import { SETTINGS, type Settings } from '../settings.js';
import { Drain } from './drain.js';
import { createLogger, LOGGER } from './logger.js';
import { Queues } from './queues.js';
import { Workers } from './workers.js';

/** What every feature may use: the log, the queues, the fail points of a test, and whether the process is closing. */
@Global()
@Module({
  providers: [
    { provide: LOGGER, useFactory: (settings: Settings) => createLogger(settings), inject: [SETTINGS] },
    { provide: FailPoints, useFactory: (settings: Settings) => new FailPoints(settings.failPoints), inject: [SETTINGS] },
    Queues,
    Drain,
    Workers,
  ],
  exports: [LOGGER, FailPoints, Queues, Drain, Workers],
})
export class OperationsModule {}
