import {
  AUTOMATIONS_QUEUE,
  EXECUTE_RUN,
  MAIL_QUEUE,
  MAIL_RESULTS_QUEUE,
  type MailJob,
  QUEUE_PREFIX,
  SEND_MESSAGE,
  type WakeUp,
} from '@onward/contracts/queues';
import { messageResultSchema, type MessageResult } from '@onward/contracts/mail';
import { FailPoints } from '@onward/wire/fail-points';
import { Inject, Injectable, type OnApplicationShutdown } from '@nestjs/common';
import { Queue, Worker } from 'bullmq';
import { Redis } from 'ioredis';
import type { Logger } from 'pino';
import { createGroupCommit } from '../database/group-commit.js';
import type { Outbox, PlannedWakeUp, Teller } from '../database/outbox.js';
import { SETTINGS, type Settings } from '../settings.js';
import { countEntries, sum } from './count-entries.js';
import { LOGGER } from './logger.js';
import { Turns } from './turns.js';

/** Tries to reach the backend, one second apart; never step attempts. */
const JOB_OPTIONS = { attempts: 5, backoff: { type: 'fixed', delay: 1_000 }, removeOnComplete: true, removeOnFail: true } as const;
/** Nobody waits longer than this for Valkey, in ms. */
const COMMAND_TIMEOUT_MS = 1_000;
/** Above this many entries nothing more is put on the queue: the rows keep it, and the sweeper tops the queue up. */
const LONG_QUEUE = 2_000;
/** So many due runs of one workflow may stand on the queue; the others keep what is left of its room. */
const SHARE = 1_000;
/** A workflow with fewer than this on the queue finds room on a long one too, up to twice its length. */
const FEW = 10;
/** While runs wait in their rows for room, so many claims make it worth while to top the queue up. */
const CLAIMS_THAT_MAKE_ROOM = 200;
/** How old the count of entries may be; while it says that the queue is long it is read more often, so that it is topped up in time. */
const DEPTH_EVERY_MS = 1_000;
const LONG_DEPTH_EVERY_MS = 200;
const CLOSE_TIMEOUT_MS = 2_000;

/**
 * The queues as the backend uses them: the only file here that knows BullMQ. What it carries are hints, so nothing here throws for a
 * Valkey that is away and nobody waits for it; the rows say what is to be done and the sweeper tells it again.
 */
@Injectable()
export class Queues implements Teller, OnApplicationShutdown {
  private readonly producer: Redis;
  private readonly automations: Queue;
  private readonly mail: Queue;
  private results: Worker | undefined;
  /** What was counted last and what was put there since; without end while Valkey is away. */
  private depth = { waiting: 0, delayed: 0 };
  private depthReadAt = Number.NEGATIVE_INFINITY;
  private reading: Promise<void> | undefined;
  /** Entries on their way to the queue: a count read meanwhile may miss them. */
  private adding = { waiting: 0, delayed: 0 };
  private readonly turns = new Turns();
  /** How many were put in turn since the queue ran empty, when it was counted last. */
  private added = 0;
  /** What is delayed stands in turn too once it is due, behind what comes due in the same second; begun anew with each count. */
  private readonly delayedTurns = new Turns();
  /** Was a run left in its row for want of room since the sweeper looked last? Then it is to look again before its time. */
  private isBehind = false;
  private claims = 0;
  private onRoom: (isNow: boolean) => void = () => undefined;
  private lastWarned = 0;
  private lastSaidUnsafe = 0;
  private isClosing = false;

  constructor(
    @Inject(SETTINGS) settings: Settings,
    private readonly failPoints: FailPoints,
    @Inject(LOGGER) private readonly log: Logger,
  ) {
    this.producer = new Redis(settings.valkeyUrl, {
      enableOfflineQueue: false,
      maxRetriesPerRequest: 1,
      commandTimeout: COMMAND_TIMEOUT_MS,
      connectTimeout: COMMAND_TIMEOUT_MS,
      retryStrategy: (times) => Math.min(100 * times, 2_000),
    });
    this.producer.on('error', (error) => this.warn(error));
    // Nothing is asked of Valkey when a queue is made: a question asked before the connection stands would fail for the life of the queue.
    const options = { connection: this.producer, prefix: QUEUE_PREFIX, skipWaitingForReady: true, skipVersionCheck: true, skipMetasUpdate: true };
    this.automations = new Queue(AUTOMATIONS_QUEUE, options);
    this.mail = new Queue(MAIL_QUEUE, options);
    for (const queue of [this.automations, this.mail]) queue.on('error', (error) => this.warn(error));
    this.valkeyUrl = settings.valkeyUrl;
  }

  private readonly valkeyUrl: string;

  /** Puts hints on the queues without making anybody wait. */
  tell({ wakeUps, mail, isRunLeft }: Outbox): void {
    if (isRunLeft) this.fallBehind();
    if (this.failPoints.isSkipped('commit.before-enqueue')) return;
    this.failPoints.reach('commit.before-enqueue');
    void Promise.all([this.addWakeUps(wakeUps), this.addMail(mail)]).then(() => this.failPoints.reach('commit.after-enqueue'));
  }

  /** Answers how many were put on the queue: none when Valkey is away. Whether there is room was asked when they were planned. */
  async addWakeUps(wakeUps: readonly PlannedWakeUp[]): Promise<number> {
    if (wakeUps.length === 0 || this.isClosing) return 0;
    const delayed = wakeUps.filter(({ delayMs }) => delayMs > 0).length;
    const added = { waiting: wakeUps.length - delayed, delayed };
    this.depth = sum(this.depth, added);
    this.adding = sum(this.adding, added);
    const isAdded = await this.add(wakeUps.map((wakeUp) => ({ ...wakeUp, turn: this.turnOf(wakeUp) })));
    this.adding = sum(this.adding, { waiting: -added.waiting, delayed: -added.delayed });
    if (!isAdded) this.noteAway();
    return isAdded ? wakeUps.length : 0;
  }

  private turnOf({ workflowId, delayMs }: PlannedWakeUp): number {
    if (delayMs <= 0) return this.turns.take(workflowId);
    return this.delayedTurns.take(`${workflowId} ${Math.floor((Date.now() + delayMs) / 1_000)}`);
  }

  /** While some are on their way to Valkey, others gather and go together afterwards. Answers whether they were added. */
  private readonly add = createGroupCommit<readonly (PlannedWakeUp & { turn: number })[], boolean>({
    lanes: 1,
    max: 1_000,
    weightOf: (wakeUps) => wakeUps.length,
    flush: async (lists) => {
      const jobs = lists.flat().map(({ runId, claimId, delayMs, turn }) => ({
        name: EXECUTE_RUN,
        data: { runId, claimId } satisfies WakeUp,
        opts: { ...JOB_OPTIONS, jobId: claimId, ...(delayMs > 0 ? { delay: Math.ceil(delayMs) } : {}), ...(turn > 0 ? { priority: turn } : {}) },
      }));
      const isAdded = (await this.quietly(() => this.automations.addBulk(jobs))) !== undefined;
      return lists.map(() => isAdded);
    },
  });

  async addMail(jobs: readonly MailJob[]): Promise<number> {
    if (jobs.length === 0 || this.isClosing) return 0;
    const added = await this.quietly(() =>
      this.mail.addBulk(jobs.map((job) => ({ name: SEND_MESSAGE, data: job, opts: { ...JOB_OPTIONS, jobId: `${job.messageId}-${job.try}` } }))),
    );
    return added ? jobs.length : 0;
  }

  /** Consumes what the gateway announces. A result is stored by id and try, so that it may come twice, late or never. */
  onMailResults(store: (result: MessageResult) => Promise<void>): void {
    const connection = new Redis(this.valkeyUrl, { maxRetriesPerRequest: null, retryStrategy: (times) => Math.min(100 * times, 2_000) });
    connection.on('error', (error) => this.warn(error));
    this.results = new Worker(
      MAIL_RESULTS_QUEUE,
      async (job) => {
        const result = messageResultSchema.safeParse(job.data);
        if (result.success) await store(result.data);
        else this.log.warn({ job: job.id }, 'a mail result could not be read and is dropped');
      },
      { connection, prefix: QUEUE_PREFIX, concurrency: 10, removeOnComplete: { count: 0 }, removeOnFail: { count: 0 } },
    );
    this.results.on('error', (error) => this.warn(error));
    this.results.on('closed', () => connection.disconnect());
  }

  /**
   * Would the queue take one more wake-up of the workflow on top of so many planned ones? Answered from memory; an old count is read anew for the next
   * who asks.
   */
  takes({ workflowId, planned, isDelayed }: { workflowId: string; planned: number; isDelayed: boolean }): boolean {
    void this.readDepth();
    if (isDelayed) return this.depth.delayed + planned < LONG_QUEUE;
    const ahead = this.turns.ahead(workflowId);
    return ahead + planned < SHARE && this.depth.waiting + planned < (ahead < FEW ? 2 : 1) * LONG_QUEUE;
  }

  /**
   * How many wake-ups the queue has room for, counted anew: none when Valkey is away. What is due and what is delayed each has a place of its own;
   * `shareOf`: how many of them the workflow may take.
   */
  async room(): Promise<{ due: number; takesDelayed: boolean; shareOf: (workflowId: string) => number }> {
    await (this.reading ?? this.readDepth({ isAnew: true }));
    this.claims = 0;
    const due = Math.max(0, LONG_QUEUE - this.depth.waiting);
    const takesDelayed = this.depth.delayed < LONG_QUEUE;
    // What is to be woken soon and finds no room comes due in its row.
    this.isBehind = due === 0 || !takesDelayed;
    const shareOf = (workflowId: string): number => Math.max(0, SHARE - this.turns.ahead(workflowId));
    return { due, takesDelayed, shareOf };
  }

  /** Who tops the queue up, now or soon. Asked while runs wait in their rows for room: soon when the first of them does, now when claims have made room. */
  whenRoom(topUp: (isNow: boolean) => void): void {
    this.onRoom = topUp;
  }

  /** Some run that is due, or soon, is left in its row for want of room. */
  private fallBehind(): void {
    if (this.isBehind) return;
    this.isBehind = true;
    if (Number.isFinite(this.depth.waiting)) this.onRoom(false);
  }

  /** An entry was taken off the queue by a worker that talks to this backend. */
  noteClaim(): void {
    this.claims += 1;
    if (!this.isBehind || this.claims < CLAIMS_THAT_MAKE_ROOM) return;
    this.claims = 0;
    this.onRoom(true);
  }

  /** May there be due runs that wait for room? */
  get hasBacklog(): boolean {
    return this.isBehind;
  }

  /** Which of these claims have an entry on the queue: waiting, delayed or in the hands of a worker. Null when Valkey cannot say. */
  async standing(claimIds: readonly string[]): Promise<ReadonlySet<string> | null> {
    const pipeline = this.producer.pipeline();
    for (const claimId of claimIds) pipeline.exists(this.automations.toKey(claimId));
    const answers = await this.quietly(() => pipeline.exec());
    if (!answers || answers.some(([error]) => error !== null)) return null;
    return new Set(claimIds.filter((_, index) => answers[index]?.[1] === 1));
  }

  /** Did Valkey answer when it was asked last? */
  async isThere(): Promise<boolean> {
    await this.readDepth();
    return Number.isFinite(this.depth.waiting);
  }

  private readDepth({ isAnew = false } = {}): Promise<void> {
    const isLong = Number.isFinite(this.depth.waiting) && (this.isBehind || this.depth.delayed >= LONG_QUEUE);
    if (!isAnew && performance.now() - this.depthReadAt < (isLong ? LONG_DEPTH_EVERY_MS : DEPTH_EVERY_MS)) return this.reading ?? Promise.resolve();
    this.depthReadAt = performance.now();
    this.reading = this.count().finally(() => {
      this.reading = undefined;
    });
    return this.reading;
  }

  private async count(): Promise<void> {
    const seen = await this.quietly(() => countEntries(this.automations, this.producer));
    if (!seen) return this.noteAway();
    const { turns, added, ...standing } = seen;
    const areOnTheWay = this.adding.waiting > 0;
    if (turns !== null || !areOnTheWay) {
      this.turns.note(turns && areOnTheWay ? { ...turns, last: Number.POSITIVE_INFINITY } : turns, added < this.added);
      this.added = added;
    }
    this.delayedTurns.note(null);
    this.depth = sum(standing, this.adding);
  }

  private noteAway(): void {
    this.depth = { waiting: Number.POSITIVE_INFINITY, delayed: Number.POSITIVE_INFINITY };
  }

  /** Is Valkey there, and set so that it throws nothing away? */
  async health(): Promise<{ ok: boolean; detail: string }> {
    try {
      await this.producer.ping();
      const policy = (await this.producer.config('GET', 'maxmemory-policy').catch(() => null)) as string[] | null;
      const isSafe = policy === null || policy[1] === undefined || policy[1] === 'noeviction';
      if (isSafe) return { ok: true, detail: 'reachable' };
      const detail = `maxmemory-policy is ${policy?.[1]}, it must be noeviction`;
      this.sayUnsafe(detail);
      return { ok: false, detail };
    } catch (error) {
      return { ok: false, detail: error instanceof Error ? error.message : String(error) };
    }
  }

  async onApplicationShutdown(): Promise<void> {
    this.isClosing = true;
    const closing = Promise.all([this.results?.close(), this.automations.close(), this.mail.close()]).catch(() => undefined);
    await Promise.race([closing, new Promise((resolve) => setTimeout(resolve, CLOSE_TIMEOUT_MS).unref())]);
    this.producer.disconnect();
  }

  private async quietly<Result>(work: () => Promise<Result>): Promise<Result | undefined> {
    try {
      return await work();
    } catch (error) {
      this.warn(error);
      return undefined;
    }
  }

  /** Once a minute, however often a probe asks. */
  private sayUnsafe(detail: string): void {
    const now = Date.now();
    if (now - this.lastSaidUnsafe < 60_000) return;
    this.lastSaidUnsafe = now;
    this.log.error(`Valkey may throw entries away, so this backend is not ready: ${detail}`);
  }

  /** Once in ten seconds: an outage is one fact, not a thousand lines. */
  private warn(error: unknown): void {
    const now = Date.now();
    if (this.isClosing || now - this.lastWarned < 10_000) return;
    this.lastWarned = now;
    this.log.warn({ err: error }, 'Valkey cannot be used; runs wait in Postgres and are woken when it is back');
  }
}
