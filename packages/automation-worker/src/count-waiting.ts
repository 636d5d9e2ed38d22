import { AUTOMATIONS_QUEUE, QUEUE_PREFIX } from '@onward/contracts/queues';
import { Redis } from 'ioredis';

/** A look is worth no longer wait than this, in ms. */
const LOOK_TIMEOUT_MS = 2_000;
/** Where BullMQ keeps what waits to be handed out. */
const WAITING_KEY = `${QUEUE_PREFIX}:${AUTOMATIONS_QUEUE}:wait`;
/** Where it keeps what waits for its turn behind those. */
const IN_TURN_KEY = `${QUEUE_PREFIX}:${AUTOMATIONS_QUEUE}:prioritized`;
/** Where it keeps what is to be handed out later, until a consumer asks for the next entry: only then what is due moves on. */
const DELAYED_KEY = `${QUEUE_PREFIX}:${AUTOMATIONS_QUEUE}:delayed`;
/** A delayed entry has the score: instant in ms, times this, plus a counter below this (bullmq 6, scripts/moveToDelayed). */
const SCORES_PER_MS = 0x1000;

/**
 * How many entries should be handed out by now: those that wait, and the delayed ones that are due; null when Valkey does not say. Asked over a
 * connection of its own, made for the question: those that stand may be what is broken.
 */
export async function countWaiting(valkeyUrl: string): Promise<number | null> {
  const connection = new Redis(valkeyUrl, {
    connectTimeout: LOOK_TIMEOUT_MS,
    commandTimeout: LOOK_TIMEOUT_MS,
    maxRetriesPerRequest: 1,
    retryStrategy: () => null,
  });
  connection.on('error', () => undefined);
  try {
    const [waiting, inTurn, due] = await Promise.all([
      connection.llen(WAITING_KEY),
      connection.zcard(IN_TURN_KEY),
      connection.zcount(DELAYED_KEY, 0, (Date.now() + 1) * SCORES_PER_MS - 1),
    ]);
    return waiting + inTurn + due;
  } catch {
    return null;
  } finally {
    connection.disconnect();
  }
}
