import { Inject, Injectable, type OnApplicationBootstrap, type OnModuleDestroy } from '@nestjs/common';
import type { Logger } from 'pino';
import { DataSource } from 'typeorm';
import { isUnavailable } from '../database/is-unavailable.js';
import { transactAndTell } from '../database/outbox.js';
import type { Tx } from '../database/sql.js';
import { sweepMessages } from '../mail/sweep-messages.js';
import { sweepNotices } from '../notifications/sweep-notices.js';
import { LOGGER } from '../operations/logger.js';
import { Queues } from '../operations/queues.js';
import { forgetWorkers } from '../operations/workers.js';
import { RuntimeKit } from '../runtime/runtime-kit.js';
import { holdRuns, letGoOfRuns } from './hold-runs.js';
import { LAPSE_BATCH, lapseRuns } from './lapse-runs.js';
import { sweepTargets } from './sweep-targets.js';
import { wakeLost } from './wake-lost.js';
import { wakeRuns } from './wake-runs.js';

/** While runs wait in their rows for room on the queue, it is topped up at least this many times in an interval, and whenever claims have made room. */
const TOP_UPS = 25;
/** With fewer places than this filled, the others' turn comes before the queue is looked at again: claims free some all the time. */
const WORTH_ANOTHER_LOOK = 200;

/**
 * Repairs: whatever was lost on the way (a wake-up, a worker, a mail result) is found here from the rows, every few seconds. Any number
 * of sweepers may run; they skip what another holds. Nothing on the usual path waits for it, and it gives up on nothing.
 */
@Injectable()
export class Sweeper implements OnApplicationBootstrap, OnModuleDestroy {
  private timer: NodeJS.Timeout | undefined;
  private passing: Promise<void> | undefined;
  private isStopped = false;
  /** Since when the database has been there, and this process awake, without a break; before a lease has gone by since then, nothing lapses. */
  private presentSince = Date.now();
  private isPresent = true;
  /** When this process was last seen to run, by the wall clock. */
  private awakeAt = Date.now();
  private watch: NodeJS.Timeout | undefined;
  /** When the next full pass is due, by `performance.now()`; between two the queue is topped up while due runs wait for room. */
  private nextPassAt = 0;
  private timerAt = Number.POSITIVE_INFINITY;
  private isPassing = false;
  private isHurried = false;

  constructor(
    private readonly source: DataSource,
    private readonly queues: Queues,
    private readonly kit: RuntimeKit,
    @Inject(LOGGER) private readonly log: Logger,
  ) {}

  onApplicationBootstrap(): void {
    this.awakeAt = this.presentSince = Date.now();
    this.watch = setInterval(() => this.noteAwake(), this.kit.settings.leaseMs / 10).unref();
    this.queues.whenRoom((isNow) => this.hurry(isNow));
    this.tick();
  }

  async onModuleDestroy(): Promise<void> {
    this.isStopped = true;
    clearTimeout(this.timer);
    clearInterval(this.watch);
    await this.passing;
  }

  /** One full pass, as a test asks for after it has moved the clock: until a pass finds nothing more to wake. */
  async sweepFully(): Promise<void> {
    await this.passing;
    this.passing = this.pass({ isFull: true });
    await this.passing;
  }

  private schedule(delayMs: number): void {
    if (this.isStopped) return;
    this.timerAt = performance.now() + delayMs;
    this.timer = setTimeout(() => this.tick(), delayMs);
  }

  /** Tops the queue up before the next pass: at once, or with the next top-up. */
  private hurry(isNow: boolean): void {
    if (isNow) this.isHurried = true;
    if (this.isPassing || this.timerAt - performance.now() <= this.untilTopUpMs()) return;
    clearTimeout(this.timer);
    this.schedule(this.untilTopUpMs());
  }

  private untilTopUpMs(): number {
    return this.isHurried ? 0 : this.kit.settings.sweepIntervalMs / TOP_UPS;
  }

  /** The pass whose time has come, and then the next one's time. */
  private tick(): void {
    const { sweepIntervalMs } = this.kit.settings;
    const isTopUp = performance.now() < this.nextPassAt;
    if (!isTopUp) this.nextPassAt = performance.now() + sweepIntervalMs;
    this.isPassing = true;
    this.isHurried = false;
    const before = this.passing ?? Promise.resolve();
    this.passing = before.then(() => this.pass({ isFull: false, isTopUp }));
    void this.passing.then(() => {
      this.isPassing = false;
      const untilPassMs = Math.max(0, this.nextPassAt - performance.now());
      this.schedule(this.queues.hasBacklog ? Math.min(untilPassMs, this.untilTopUpMs()) : untilPassMs);
    });
  }

  /** Every duty is tried, whatever another comes to. A stop waits only for what is in hand. */
  private async pass({ isFull, isTopUp = false }: { isFull: boolean; isTopUp?: boolean }): Promise<void> {
    let isPresent = true;
    for (const [duty, work] of Object.entries(this.duties(isFull))) {
      if (this.isStopped) return;
      if (isTopUp && duty !== 'wake') continue;
      try {
        await work();
      } catch (error) {
        if (isUnavailable(error)) isPresent = false;
        this.log[isUnavailable(error) ? 'warn' : 'error']({ err: error, duty }, 'a duty of the sweeper failed; the next pass tries again');
      }
    }
    if (isPresent && !this.isPresent) this.presentSince = Date.now();
    this.isPresent = isPresent;
  }

  /** Whoever was stopped, or ran on a machine that was, has heard no renewal meanwhile: as if the database had been away. */
  private noteAwake(): void {
    const now = Date.now();
    if (now - this.awakeAt > this.kit.settings.leaseMs / 2) this.presentSince = now;
    // A clock that was set back.
    this.presentSince = Math.min(this.presentSince, now);
    this.awakeAt = now;
  }

  private canLapse(): boolean {
    this.noteAwake();
    return !this.isStopped && this.isPresent && Date.now() - this.presentSince >= this.kit.settings.leaseMs;
  }

  private duties(isFull: boolean): Record<string, () => Promise<unknown>> {
    const tell = <Result>(work: (tx: Tx) => Promise<Result>) => transactAndTell(this.source, this.queues, work);
    return {
      lapse: async () => {
        for (let lapsed = LAPSE_BATCH; lapsed === LAPSE_BATCH && this.canLapse(); ) {
          lapsed = await tell((tx) => lapseRuns(tx, this.kit));
          if (lapsed > 0) this.log.info({ lapsed }, 'leases lapsed; the runs are due again');
        }
      },
      hold: () => tell((tx) => holdRuns(tx)),
      letGo: () => tell((tx) => letGoOfRuns(tx)),
      wakeLost: () => wakeLost(this.source, this.queues),
      wake: async () => {
        for (let isMore = true; isMore && !this.isStopped; ) {
          const room = await this.queues.room();
          if (room.due === 0) break;
          const woken = await tell((tx) => wakeRuns(tx, room));
          isMore = isFull ? woken > 0 : woken === room.due && woken >= WORTH_ANOTHER_LOOK;
        }
      },
      messages: async () => sweepMessages(this.source, this.queues, { isQueueThere: await this.queues.isThere() }),
      targets: () => sweepTargets(this.source, this.queues, () => this.isStopped),
      workers: () => tell(forgetWorkers),
      notices: () => sweepNotices(this.source, this.queues, this.kit.settings),
    };
  }
}
