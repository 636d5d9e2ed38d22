/** Targets locked in one transaction. */
export const TARGETS_AT_ONCE = 100;

/** What one batch over targets did, and the id from which the next one goes on; null when there is none after it. */
export type Batch = { count: number; next: string | null };

export function batchOf(seen: readonly { id: string }[], count: number): Batch {
  return { count, next: seen.length < TARGETS_AT_ONCE ? null : (seen.at(-1)?.id ?? null) };
}
