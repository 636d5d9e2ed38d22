/**
 * The two queues of the gateway: it takes jobs from `mail` and announces results on `mail-results`. The only file that imports bullmq.
 *
 * The queue carries hints. A job's lock may be lost while its message is being delivered: that ends nothing, since the backend answers `already`
 * to whoever is handed the job next, and the loss is known from the log only. A wiped or unreachable Valkey stops
 * new work and nothing else.
 */
import { MAIL_QUEUE, MAIL_RESULTS_QUEUE, MESSAGE_RESULT, type MailJob, QUEUE_PREFIX, mailJobSchema } from '@onward/contracts/queues';
import type { MessageResult } from '@onward/contracts/mail';
import { Queue, Worker } from 'bullmq';
import { Redis } from 'ioredis';
import type { Logger } from 'pino';

/** A job without a living worker is handed out again after this, in ms, at the latest one look (a third of it) later. */
const LOCK_MS = 30_000;
const ANNOUNCE_TIMEOUT_MS = 1_000;
const RETRY_PAUSE_MS = 1_000;
/** Tries of the backend to take an announced result; it has been stored by `mail.message.end` as a rule. */
const RESULT_ATTEMPTS = 5;

const SWALLOWED = /^(Missing (key|lock) for job|could not renew lock for job)/;

export interface MailQueue {
  /** Takes no more jobs and resolves when those in hand are done and Valkey knows: never, when Valkey is away. */
  stopTaking(): Promise<void>;
  /** Announces a result. Best effort: it never throws, and gives up within seconds. */
  announce(result: MessageResult): Promise<void>;
  /** Drops the connections as they stand. */
  disconnect(): void;
}

export function openMailQueue({
  valkeyUrl,
  concurrency,
  deliver,
  log,
}: {
  valkeyUrl: string;
  concurrency: number;
  deliver: (job: MailJob) => Promise<unknown>;
  log: Logger;
}): MailQueue {
  const outage = new Outage(log);
  const consumer = new Redis(valkeyUrl, { maxRetriesPerRequest: null, retryStrategy });
  const producer = new Redis(valkeyUrl, {
    enableOfflineQueue: false,
    maxRetriesPerRequest: 1,
    commandTimeout: ANNOUNCE_TIMEOUT_MS,
    connectTimeout: ANNOUNCE_TIMEOUT_MS,
    retryStrategy,
  });
  // Without the version check the queue asks Valkey nothing when it is made: a question asked before the connection stands would fail and, for
  // bullmq, that failure would last for the life of the queue.
  const results = new Queue(MAIL_RESULTS_QUEUE, {
    prefix: QUEUE_PREFIX,
    connection: producer,
    skipWaitingForReady: true,
    skipVersionCheck: true,
    skipMetasUpdate: true,
  });
  const worker = new Worker(
    MAIL_QUEUE,
    async ({ data, id }) => {
      const job = mailJobSchema.safeParse(data);
      if (job.success) await deliver(job.data);
      else log.warn({ jobId: id }, 'a job of the mail queue names no message and is dropped');
    },
    {
      prefix: QUEUE_PREFIX,
      connection: consumer,
      concurrency,
      lockDuration: LOCK_MS,
      lockRenewTime: LOCK_MS / 3,
      stalledInterval: LOCK_MS / 3,
      maxStalledCount: 1,
      removeOnComplete: { count: 0 },
      removeOnFail: { count: 0 },
    },
  );
  for (const connection of [consumer, producer]) connection.on('error', outage.note);
  results.on('error', outage.note);
  worker.on('error', outage.note);
  consumer.on('ready', outage.end);
  worker.on('failed', (job, error) => log.warn({ ...job?.data, why: error.message }, 'the message could not be looked at; its job is tried again'));

  return {
    stopTaking: async () => worker.close(),
    announce: async (result) => {
      try {
        await results.add(MESSAGE_RESULT, result, {
          jobId: `${result.messageId}-${result.try}`,
          attempts: RESULT_ATTEMPTS,
          backoff: { type: 'fixed', delay: RETRY_PAUSE_MS },
          removeOnComplete: true,
          removeOnFail: true,
        });
      } catch (error) {
        log.warn({ messageId: result.messageId, try: result.try, why: String(error) }, 'the result could not be announced');
      }
    },
    disconnect: () => {
      consumer.disconnect();
      producer.disconnect();
    },
  };
}

/** Up to 2 s between dials, in ms. */
function retryStrategy(dials: number): number {
  return Math.min(dials * 100, 2_000);
}

/** Says once that Valkey is away and once that it is back, however many errors come in between. */
class Outage {
  #isOn = false;
  constructor(private readonly log: Logger) {}

  readonly note = (error: Error): void => {
    if (SWALLOWED.test(error.message)) return void this.log.debug({ why: error.message }, 'the lock of a job was lost');
    if (!this.#isOn) this.log.warn({ why: error.message || error.name }, 'trouble with Valkey; no new messages are taken meanwhile');
    this.#isOn = true;
  };

  readonly end = (): void => {
    if (this.#isOn) this.log.info({}, 'Valkey is reached again');
    this.#isOn = false;
  };
}
