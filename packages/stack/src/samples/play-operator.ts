/**
 * Plays the person at the console when a target is down: lets the attempts run out, repairs the target, sends the runs back.
 *
 * On the test clock the retries come as their times do; on the real one each is asked for by hand (`retry-now`), since the second
 * comes minutes later. A target that has failed a few times is left alone, and runs wait for it without spending an attempt: who wants them to run out
 * closes it by hand. A caller that breaks a target repairs it whatever happens here.
 */
import { setTimeout as pause } from 'node:timers/promises';
import { type Api, ApiRefusal } from './api.js';
import type { Run, Target } from './api-answers.js';
import { followToRest, type Following } from './follow-runs.js';
import { formatInstant } from './format-instant.js';

/** How soon those who waited for a target are looked at again. */
const RELEASED_WITHIN_MS = 300;

/** Breaks the target: from now on the webhook sink answers 500 to everything. */
export function breakTarget(sinkUrl: string): Promise<void> {
  return setSinkMode(sinkUrl, 'fail');
}

export function repairTarget(sinkUrl: string): Promise<void> {
  return setSinkMode(sinkUrl, 'ok');
}

/** Resolves when the runs, replayed, are at rest again. */
export async function playOperator(ids: readonly string[], sinkUrl: string, following: Following): Promise<void> {
  const { api, clock, say, signal } = following;
  let runs = await followToRest(ids, following);
  for (;;) {
    const retrying = waiting(runs);
    const next = retrying[0]?.dueAt;
    if (runs.some(isBlocked)) {
      if (await closeTarget(sinkUrl, api))
        say('  Onward leaves the target alone by now, and runs wait for it. The operator lets them try again: POST /targets/<id>/close');
      await pause(RELEASED_WITHIN_MS, undefined, { signal });
    } else if (retrying.length === 0) break;
    else if (clock.moveTo !== undefined && next) {
      say(`  Time passes: ${formatInstant(next)}, the next attempt.`);
      await clock.moveTo(next);
    } else {
      say('  The operator does not want to wait for the next attempts: POST /runs/<id>/retry-now');
      for (const { id } of retrying) await retryNow(api, id);
    }
    runs = await followToRest(ids, following);
  }
  const dead = runs.filter(({ state }) => state === 'dead_lettered');
  say(`  ${dead.length} of ${runs.length} runs are dead letters by now, and whoever is to be told has mail. The operator repairs the target and replays them.`);
  await repairTarget(sinkUrl);
  await closeTarget(sinkUrl, api);
  for (const { id } of dead) await api.post(`/runs/${id}/replay`, {});
  await followToRest(ids, following);
}

function isBlocked({ state, waitReason }: Run): boolean {
  return state === 'waiting' && waitReason === 'target';
}

/** Lets calls through to the target again; what waits for it goes on at its pace. Answers whether they were kept back. */
async function closeTarget(sinkUrl: string, api: Api): Promise<boolean> {
  const target = (await api.all<Target>('/targets')).find(({ origin }) => origin === new URL(sinkUrl).origin);
  if (!target || target.state === 'closed') return false;
  await api.post(`/targets/${target.id}/close`);
  return true;
}

/** A conflict means that its time has come meanwhile. */
async function retryNow(api: Api, id: string): Promise<void> {
  try {
    await api.post(`/runs/${id}/retry-now`);
  } catch (error) {
    if (!(error instanceof ApiRefusal && error.status === 409)) throw error;
  }
}

/** Soonest first. */
function waiting(runs: readonly Run[]): readonly Run[] {
  return runs.filter(({ state }) => state === 'retrying').sort((a, b) => Date.parse(a.dueAt ?? '') - Date.parse(b.dueAt ?? ''));
}

async function setSinkMode(sinkUrl: string, kind: 'ok' | 'fail'): Promise<void> {
  const response = await fetch(`${sinkUrl}/_mode?kind=${kind}`, { method: 'POST' });
  if (!response.ok) throw new Error(`The webhook sink did not change its mode: ${response.status}`);
}
