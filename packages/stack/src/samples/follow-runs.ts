/**
 * Waits until every run rests, and says how far they have come.
 *
 * At rest: ended, held by a paused workflow, or waiting for an instant still ahead or for a person. A run whose mail is under way, or that
 * is due and not yet taken up, is not.
 */
import { setTimeout as pause } from 'node:timers/promises';
import type { Log } from '../log.js';
import type { Api } from './api.js';
import type { Run } from './api-answers.js';
import type { Clock } from './clock.js';

export type Following = { readonly api: Api; readonly clock: Clock; readonly say: Log; readonly signal: AbortSignal };

const LOOK_EVERY_MS = 150;
/** Without any change for this long, something is wrong; longer than the default sweep interval and a lease. */
const PATIENCE_MS = 60_000;

/** Throws, naming the run, when nothing changes for a minute while one is not at rest. */
export async function followToRest(ids: readonly string[], { api, clock, say, signal }: Following): Promise<readonly Run[]> {
  let seen = '';
  let saidCount = -1;
  let giveUpAt = Date.now() + PATIENCE_MS;
  for (;;) {
    const runs = await Promise.all(ids.map((id) => api.get<Run>(`/runs/${id}`)));
    const now = clock.now();
    const restless = runs.filter((run) => !isAtRest(run, now));
    const resting = runs.length - restless.length;
    if (resting !== saidCount) say(`  ${resting} of ${runs.length} runs at rest${restless.length > 0 ? ' …' : ''}`);
    saidCount = resting;
    const [stuck] = restless;
    if (stuck === undefined) return runs;

    const looked = runs.map(({ state, history, dueAt }) => [state, history.length, dueAt].join()).join(' ');
    if (looked !== seen) giveUpAt = Date.now() + PATIENCE_MS;
    else if (Date.now() > giveUpAt) throw new Error(`Run ${stuck.id} of "${stuck.workflowName}" has not moved for ${PATIENCE_MS / 1_000} s: ${stuck.why}`);
    seen = looked;
    await pause(LOOK_EVERY_MS, undefined, { signal });
  }
}

export function isAtRest({ state, dueAt, waitReason, isHeld }: Run, now: Date): boolean {
  if (isHeld) return true;
  switch (state) {
    case 'succeeded':
    case 'failed':
    case 'dead_lettered':
    case 'cancelled':
    case 'awaiting_approval':
      return true;
    case 'pending':
    case 'running':
      return false;
    case 'retrying':
      return isAhead(dueAt, now);
    case 'waiting':
      return waitReason !== 'mail' && isAhead(dueAt, now);
    default:
      return state satisfies never;
  }
}

/** Whether it has ended for good. */
export function hasEnded({ endedAt }: Run): boolean {
  return endedAt !== null;
}

function isAhead(instant: string | null, now: Date): boolean {
  return instant === null || Date.parse(instant) > now.getTime();
}
