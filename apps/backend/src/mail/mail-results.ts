import { FailPoints } from '@onward/wire/fail-points';
import { Injectable, type OnApplicationBootstrap } from '@nestjs/common';
import { DataSource } from 'typeorm';
import { transactAndTell } from '../database/outbox.js';
import { EventBus } from '../events/event-bus.js';
import { Queues } from '../operations/queues.js';
import { endMessage } from './end-message.js';

/**
 * Stores the results that the gateway announces on `mail-results`. The gateway has told the backend itself before it announces one, so
 * this is the second way for a result whose first was lost; the first stored of each try counts.
 */
@Injectable()
export class MailResults implements OnApplicationBootstrap {
  constructor(
    private readonly source: DataSource,
    private readonly queues: Queues,
    private readonly bus: EventBus,
    private readonly failPoints: FailPoints,
  ) {}

  onApplicationBootstrap(): void {
    this.queues.onMailResults(async (result) => {
      this.failPoints.reach('mail-results.before-store');
      await transactAndTell(this.source, this.queues, (tx) => endMessage(tx, this.bus, result));
      this.failPoints.reach('mail-results.after-store');
    });
  }
}
