/**
 * Takes wake-ups off the queue `automations`: the only file here that imports bullmq.
 *
 * A wake-up is a hint. A job whose lock is lost while its run is driven ends nothing: the lease in Postgres counts, and what BullMQ says
 * at such a job's end is swallowed. A wiped or unreachable Valkey stops new wake-ups and nothing else. A consumer that has gone deaf (entries wait,
 * places are free, nothing comes) is replaced by one on new connections; the old one keeps the locks of the jobs in hand until they are done.
 */
import { AUTOMATIONS_QUEUE, QUEUE_PREFIX, type WakeUp, wakeUpSchema } from '@onward/contracts/queues';
import { DelayedError, Worker } from 'bullmq';
import { Redis } from 'ioredis';
import type { Logger } from 'pino';
import type { Rest } from './conversation.js';
import { countWaiting } from './count-waiting.js';
import { watchForSilence } from './watchdog.js';

const SWALLOWED = /^(Missing (key|lock) for job|could not renew lock for job)/i;
/** Of a pipeline half of which was answered when the connection broke. The job's end may be unknown to the queue, which then hands it out again. */
const CUT = /^Command aborted due to connection close/;
/** A job may stall as often as it likes: giving up on it is the backend's business. */
const STALLS_ALLOWED = 1_000;
/** The queue is looked at this often, in ms, and in any case several times before silence counts as deafness. */
const LOOK_EVERY_MS = 10_000;
const LOOKS_IN_A_SILENCE = 6;

export type WakeUps = {
  /** Takes no more and resolves when those in hand are done and Valkey knows: never, when Valkey is away. */
  stopTaking(): Promise<void>;
  disconnect(): void;
  /** Resolves when a new consumer was as deaf as the one before it: the process had better begin anew. */
  deaf: Promise<void>;
};

export function takeWakeUps({
  valkeyUrl,
  concurrency,
  leaseMs,
  silentForMs,
  handle,
  log,
}: {
  valkeyUrl: string;
  concurrency: number;
  leaseMs: number;
  /** Silence for so long, in ms, while entries wait and places are free, is deafness. */
  silentForMs: number;
  handle: (wakeUp: WakeUp, callId: number) => Promise<Rest>;
  log: Logger;
}): WakeUps {
  let isAway = false;
  let handOuts = 0;
  let inHand = 0;
  const note = (error: Error): void => {
    if (SWALLOWED.test(error.message)) return void log.debug({ why: error.message }, 'the lock of a job was lost');
    if (!isAway) log.warn({ why: error.message || error.name }, 'trouble with Valkey; no new wake-ups are taken meanwhile');
    isAway = true;
  };

  const consume = (): Consumer => {
    const connection = new Redis(valkeyUrl, {
      maxRetriesPerRequest: null,
      retryStrategy: (dials) => Math.min(dials * 100, 2_000),
      // The ends of many jobs come together, and leave in one write. What blocks has a connection of its own.
      enableAutoPipelining: true,
      autoPipeliningIgnoredCommands: ['bzpopmin'],
    });
    connection.on('error', note);
    connection.on('ready', () => {
      if (isAway) log.info('Valkey is reached again');
      isAway = false;
    });
    const worker = new Worker(
      AUTOMATIONS_QUEUE,
      async (job, token) => {
        handOuts += 1;
        const wakeUp = wakeUpSchema.safeParse(job.data);
        if (!wakeUp.success) return void log.warn({ jobId: job.id }, 'a job names no run and is dropped');
        inHand += 1;
        const rest = await handle(wakeUp.data, job.attemptsStarted).finally(() => {
          inHand -= 1;
        });
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
      if (!SWALLOWED.test(error.message) && !CUT.test(error.message))
        log.warn({ ...job?.data, why: error.message }, 'a run could not be driven to rest; its job is handed out again');
    });
    return { worker, connection };
  };

  let current = consume();
  const retired = new Map<Consumer, Promise<void>>();
  let sayDeaf: () => void = () => undefined;
  const deaf = new Promise<void>((resolve) => {
    sayDeaf = resolve;
  });
  const endWatch = watchForSilence(
    { handOuts: () => handOuts, hasFreePlace: () => inHand < concurrency, countWaiting: () => countWaiting(valkeyUrl) },
    { lookEveryMs: Math.min(LOOK_EVERY_MS, Math.ceil(silentForMs / LOOKS_IN_A_SILENCE)), silentForMs },
    {
      rebuild: () => {
        log.warn({ silentForMs }, 'wake-ups wait and none is handed out: the queue is listened to over new connections');
        const old = current;
        current = consume();
        retired.set(
          old,
          old.worker
            .close()
            .then(
              () => old.connection.disconnect(),
              () => undefined,
            )
            .then(() => void retired.delete(old)),
        );
      },
      giveUp: () => {
        log.error({ silentForMs }, 'wake-ups wait and none is handed out, over new connections neither');
        sayDeaf();
      },
    },
  );
  return {
    deaf,
    stopTaking: async () => {
      endWatch();
      await Promise.all([current.worker.close(), ...retired.values()]);
    },
    disconnect: () => {
      endWatch();
      for (const { worker, connection } of [current, ...retired.keys()]) {
        void worker.disconnect().catch(() => undefined);
        connection.disconnect();
      }
    },
  };
}

type Consumer = { worker: Worker; connection: Redis };
