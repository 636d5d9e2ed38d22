import type { Redis } from 'ioredis';

/** BullMQ keeps an entry with a priority under the score: priority, times this, plus a counter below this (bullmq 6, includes/getPriorityScore). */
const SCORES_PER_PRIORITY = 2 ** 32;

/** How many entries are to be handed out now, and later. */
type Depth = { waiting: number; delayed: number };

/**
 * The depth of a queue; the first and the last turn of what is to be handed out now, `null` when there are none; and how many were put in turn
 * since nothing stood there, by BullMQ's own count.
 */
type Entries = Depth & { turns: { first: number; last: number } | null; added: number };

type Kind = 'wait' | 'prioritized' | 'delayed';
/** What is asked of a queue of BullMQ. */
type Counted = { toKey(kind: Kind | 'pc'): string; getJobCounts(...kinds: Kind[]): Promise<Record<string, number>> };

/** Counts what stands on a queue. Throws what Valkey throws. */
export async function countEntries(queue: Counted, valkey: Redis): Promise<Entries> {
  const inTurn = queue.toKey('prioritized');
  const [{ wait = 0, prioritized = 0, delayed = 0 }, counter, ...ends] = await Promise.all([
    queue.getJobCounts('wait', 'prioritized', 'delayed'),
    valkey.get(queue.toKey('pc')),
    ...[0, -1].map((place) => valkey.zrange(inTurn, place, place, 'WITHSCORES')),
  ]);
  const [first, last] = ends.map(([, score]) => (score === undefined ? undefined : Math.floor(Number(score) / SCORES_PER_PRIORITY)));
  // What has no priority has the first turn there is; it says nothing of how far the others have come.
  const turns = first !== undefined && last !== undefined ? { first, last } : wait > 0 ? { first: 0, last: 0 } : null;
  return { waiting: wait + prioritized, delayed, turns, added: Number(counter ?? 0) };
}

export function sum(one: Depth, other: Depth): Depth {
  return { waiting: one.waiting + other.waiting, delayed: one.delayed + other.delayed };
}
