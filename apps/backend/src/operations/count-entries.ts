import type { Redis } from 'ioredis';

/** BullMQ keeps an entry with a priority under the score: priority, times this, plus a counter below this (bullmq 6, includes/getPriorityScore). */
const SCORES_PER_PRIORITY = 2 ** 32;

/** How many entries are to be handed out now, and later; and the first and the last turn of the former, `null` when there are none. */
export type Entries = { waiting: number; delayed: number; turns: { first: number; last: number } | null };

type Kind = 'wait' | 'prioritized' | 'delayed';
/** What is asked of a queue of BullMQ. */
type Counted = { toKey(kind: Kind): string; getJobCounts(...kinds: Kind[]): Promise<Record<string, number>> };

/** Counts what stands on a queue. Throws what Valkey throws. */
export async function countEntries(queue: Counted, valkey: Redis): Promise<Entries> {
  const inTurn = queue.toKey('prioritized');
  const [{ wait = 0, prioritized = 0, delayed = 0 }, ...ends] = await Promise.all([
    queue.getJobCounts('wait', 'prioritized', 'delayed'),
    ...[0, -1].map((place) => valkey.zrange(inTurn, place, place, 'WITHSCORES')),
  ]);
  const [first, last] = ends.map(([, score]) => (score === undefined ? undefined : Math.floor(Number(score) / SCORES_PER_PRIORITY)));
  // What has no priority, and so is not in turn by its score, comes first of all.
  const turns = wait > 0 ? { first: 0, last: last ?? 0 } : first !== undefined && last !== undefined ? { first, last } : null;
  return { waiting: wait + prioritized, delayed, turns };
}
