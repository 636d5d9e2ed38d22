/**
 * How long runs stood still after a process was killed. Read from the commit log: for each run that was in hand at the kill, the time until
 * the first commit of it that another epoch made, or, where the one who had it lived on, until its next commit of a frame.
 */
import { checkpointOf, readCommits } from './commit-log.js';
import type { Installation } from './installation.js';

export type Killed = { at: Date; inHand: ReadonlyMap<string, { epoch: number; frame: string }> };

/** Notes which runs are in hand, then kills. `at` is this machine's clock, which the database shares. */
export async function killAndNote({ query }: Pick<Installation, 'query'>, kill: () => void): Promise<Killed> {
  const commits = await readCommits(query);
  const inHand = new Map<string, { epoch: number; frame: string }>();
  for (const [runId, own] of commits) {
    const last = own.at(-1);
    if (last?.state === 'running') inHand.set(runId, { epoch: last.epoch, frame: checkpointOf(last) });
  }
  kill();
  return { at: new Date(), inHand };
}

/** Milliseconds, one for each run that was in hand and moved on, in order. */
export async function measureRecovery({ query }: Pick<Installation, 'query'>, { at, inHand }: Killed): Promise<number[]> {
  const commits = await readCommits(query);
  const stoodStillMs = [...inHand].flatMap(([runId, { epoch, frame }]) => {
    const next = commits.get(runId)?.find((commit) => commit.at > at && (commit.epoch > epoch || checkpointOf(commit) !== frame));
    return next ? [next.at.getTime() - at.getTime()] : [];
  });
  return stoodStillMs.sort((a, b) => a - b);
}

/** One line for people. */
export function tellRecovery(what: string, stoodStillMs: readonly number[]): string {
  const at = (share: number) => stoodStillMs[Math.min(stoodStillMs.length - 1, Math.floor(stoodStillMs.length * share))];
  if (stoodStillMs.length === 0) return `${what}: no run was in hand`;
  return `${what}: ${stoodStillMs.length} runs in hand moved again after p50 ${at(0.5)} ms, p95 ${at(0.95)} ms`;
}
