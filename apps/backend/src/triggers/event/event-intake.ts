import { FailPoints } from '@onward/wire/fail-points';
import { Inject, Injectable, type OnModuleDestroy } from '@nestjs/common';
import type { Logger } from 'pino';
import { DataSource, QueryFailedError } from 'typeorm';
import { databaseFault } from '../../database/database-fault.js';
import { createGroupCommit } from '../../database/group-commit.js';
import { transactAndTell } from '../../database/outbox.js';
import { EventBus } from '../../events/event-bus.js';
import { Problem } from '../../http/problem.js';
import { LOGGER } from '../../operations/logger.js';
import { Queues } from '../../operations/queues.js';
import { HeldWakeUps } from './held-wake-ups.js';
import { acceptEvents, type EventAnswer, type EventInput } from './accept-events.js';

/** Transactions that take events in at one time. The pool has more connections, which the runs need. */
const LANES = 2;
/** Events that come one by one and share a transaction. A batch goes by itself. */
const MAX_TOGETHER = 100;
/** Events that may wait for a lane: some seconds' worth, and as much memory as that many bodies hold. */
const MAX_WAITING = 5_000;
const RETRY_AFTER_SECONDS = 1;

/**
 * Where events come in: those that come at the same time share transactions. Each list is answered one for one, after the commit. An event that
 * cannot be taken fails alone: what shared its transaction is taken again event by event.
 *
 * Throws what concerns the whole list: `busy` when too many events wait already, or that the database is away. Not promised then: that none of them
 * was taken, since a commit may have been cut. An id of the emitter's own makes sending again safe.
 */
@Injectable()
export class EventIntake implements OnModuleDestroy {
  constructor(
    private readonly source: DataSource,
    private readonly queues: Queues,
    private readonly bus: EventBus,
    private readonly failPoints: FailPoints,
    @Inject(LOGGER) private readonly log: Logger,
  ) {}

  private readonly wakeUps = new HeldWakeUps(this.queues);

  readonly accept = createGroupCommit<readonly EventInput[], readonly EventAnswer[]>({
    lanes: LANES,
    max: MAX_TOGETHER,
    weightOf: (inputs) => inputs.length,
    flush: async (lists, isBusy) => {
      try {
        const answers = await this.takeTogether(lists.flat());
        let from = 0;
        return lists.map(({ length }) => answers.slice(from, (from += length)));
      } finally {
        if (!isBusy()) this.wakeUps.release();
      }
    },
    alone: (inputs, cause) => this.takeEach(inputs, cause).finally(() => this.wakeUps.release()),
    isForAll: isAway,
    full: {
      weight: MAX_WAITING,
      refusal: () => new Problem('busy', 'Too many events wait to be taken in; nothing of this request was kept', { retryAfterSeconds: RETRY_AFTER_SECONDS }),
    },
  });

  /** The queue is still open then. */
  onModuleDestroy(): void {
    this.wakeUps.release();
  }

  private take(inputs: readonly EventInput[], onFault: 'refuse' | 'throw'): Promise<EventAnswer[]> {
    return transactAndTell(this.source, this.wakeUps, (tx) => acceptEvents(tx, inputs, { bus: this.bus, failPoints: this.failPoints, onFault }));
  }

  /** In one transaction: written in one go or, where the database refuses that, step by step and under savepoints. */
  private async takeTogether(inputs: readonly EventInput[]): Promise<EventAnswer[]> {
    try {
      return await this.take(inputs, 'throw');
    } catch (error) {
      if (!isStatementRefused(error)) throw error;
      return this.take(inputs, 'refuse');
    }
  }

  /** Each event in a transaction of its own. One that was alone before has been tried in every way. */
  private async takeEach(inputs: readonly EventInput[], cause: { error: unknown; size: number }): Promise<readonly EventAnswer[]> {
    if (cause.size === 1 && inputs.length === 1) throw cause.error;
    this.log.debug({ err: cause.error, events: inputs.length }, 'events that shared a transaction are taken one by one');
    const answers: EventAnswer[] = [];
    let away: Error | undefined;
    for (const input of inputs) {
      if (away !== undefined) {
        answers.push({ refused: away });
        continue;
      }
      try {
        answers.push(...(await this.take([input], 'refuse')));
      } catch (thrown) {
        const error = thrown instanceof Error ? thrown : new Error(String(thrown));
        if (isAway(error)) away = error;
        answers.push({ refused: error });
      }
    }
    return answers;
  }
}

function isAway(error: unknown): boolean {
  return databaseFault(error) === 'away';
}

/** Did the database refuse a statement for what stands in it? Not so when it is busy, or away: then the events may be there already. */
function isStatementRefused(error: unknown): boolean {
  const fault = databaseFault(error);
  return error instanceof QueryFailedError && fault !== 'busy' && fault !== 'away';
}
