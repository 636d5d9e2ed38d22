/**
 * Takes wake-ups off the queue `automations`: the only file here that imports bullmq.
 *
 * A wake-up is a hint. A job whose lock is lost while its run is driven ends nothing: the lease in Postgres counts, and what BullMQ says
 * at such a job's end is swallowed. A wiped or unreachable Valkey stops new wake-ups and nothing else.
 */
import { AUTOMATIONS_QUEUE, QUEUE_PREFIX, type WakeUp, wakeUpSchema } from '@onward/contracts/queues';
import { DelayedError, Worker } from 'bullmq';
import { Redis } from 'ioredis';
import type { Logger } from 'pino';
import type { Rest } from './conversation.js';

const SWALLOWED = /^(Missing (key|lock) for job|could not renew lock for job)/i;
/** A job may stall as often as it likes: giving up on it is the backend's business. */
const STALLS_ALLOWED = 1_000;

export type WakeUps = {
  /** Takes no more and resolves when those in hand are done and Valkey knows: never, when Valkey is away. */
  stopTaking(): Promise<void>;
  disconnect(): void;
};

export function takeWakeUps({
  valkeyUrl,
  concurrency,
  leaseMs,
  handle,
  log,
}: {
  valkeyUrl: string;
  concurrency: number;
  leaseMs: number;
  handle: (wakeUp: WakeUp, callId: number) => Promise<Rest>;
  log: Logger;
}): WakeUps {
  const connection = new Redis(valkeyUrl, { maxRetriesPerRequest: null, retryStrategy: (dials) => Math.min(dials * 100, 2_000) });
  let isAway = false;
  const note = (error: Error): void => {
    if (SWALLOWED.test(error.message)) return void log.debug({ why: error.message }, 'the lock of a job was lost');
    if (!isAway) log.warn({ why: error.message || error.name }, 'trouble with Valkey; no new wake-ups are taken meanwhile');
    isAway = true;
  };
  connection.on('error', note);
  connection.on('ready', () => {
    if (isAway) log.info('Valkey is reached again');
    isAway = false;
  });
  const worker = new Worker(
    AUTOMATIONS_QUEUE,
    async (job, token) => {
      const wakeUp = wakeUpSchema.safeParse(job.data);
      if (!wakeUp.success) return void log.warn({ jobId: job.id }, 'a job names no run and is dropped');
      const rest = await handle(wakeUp.data, job.attemptsStarted);
      if (rest.kind !== 'not_due') return;
      await job.moveToDelayed(Date.now() + rest.inMs, token);
      throw new DelayedError();
    },
    {
      connection,
      prefix: QUEUE_PREFIX,
      concurrency,
      lockDuration: leaseMs,
      lockRenewTime: Math.floor(leaseMs / 3),
      stalledInterval: Math.floor(leaseMs / 3),
      maxStalledCount: STALLS_ALLOWED,
      removeOnComplete: { count: 0 },
      removeOnFail: { count: 0 },
    },
  );
  worker.on('error', note);
  worker.on('failed', (job, error) => {
    if (!SWALLOWED.test(error.message)) log.warn({ ...job?.data, why: error.message }, 'a run could not be driven to rest; its job is handed out again');
  });
  return { stopTaking: () => worker.close(), disconnect: () => connection.disconnect() };
}
