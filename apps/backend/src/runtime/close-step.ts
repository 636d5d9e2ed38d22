import type { Verb } from '@onward/contracts/patterns';
import { targetKey } from '@onward/contracts/targets';
import { retryDelay } from '@onward/workflow-graph/retry-delay';
import type { Attempt } from '../runs/attempt.entity.js';
import type { Version } from '../workflows/read-version.js';
import { attemptsOf, type Checkpoint } from './checkpoint.js';
import { endRun } from './end-run.js';
import { tallyBefore } from './outcomes.js';
import { leaveNode } from './pass-nodes.js';
import { restRun } from './rest-run.js';
import type { RuntimeKit } from './runtime-kit.js';

/**
 * Does what the recorded outcome of the step in hand was judged to. Worker calls (run.advance, run.retry, …) and the settling of a
 * resolved wait come here, so both move a run alike. A cancel that was asked for overrides every verb; a paused workflow lets the
 * run finish its step and holds it before the next.
 */
export async function closeStep(checkpoint: Checkpoint, version: Version, attempt: Attempt, kit: RuntimeKit): Promise<void> {
  if (checkpoint.run.isCancelAsked) return endRun(checkpoint, { move: 'cancel', reason: 'cancelled by request' }, kit);
  await VERB[attempt.verb as Verb](checkpoint, version, attempt, kit);
}

const VERB = {
  advance,
  wait,
  retry,
  fail: async (checkpoint, _version, attempt, kit) => endRun(checkpoint, { move: 'fail', failure: failureOf(attempt) }, kit),
  'dead-letter': async (checkpoint, _version, attempt, kit) => endRun(checkpoint, { move: 'bury', failure: failureOf(attempt) }, kit),
} as const satisfies Record<Verb, (checkpoint: Checkpoint, version: Version, attempt: Attempt, kit: RuntimeKit) => Promise<void>>;

async function advance(checkpoint: Checkpoint, version: Version, attempt: Attempt, kit: RuntimeKit): Promise<void> {
  await leaveNode(checkpoint, version, attempt.port ?? 'next', kit);
  if (checkpoint.run.state === 'running' && isPaused(checkpoint)) restRun(checkpoint, 'release', { dueAt: checkpoint.now, isHeld: true });
}

async function wait(checkpoint: Checkpoint, _version: Version, attempt: Attempt): Promise<void> {
  if (attempt.status === 'not_sent') return waitForTarget(checkpoint, attempt);
  const { key, dueAt } = attempt.output as { key?: string; dueAt?: string };
  if (key === undefined) return restRun(checkpoint, 'wait', { waitReason: 'time', waitKey: null, dueAt: new Date(dueAt as string) });
  // What it waits for may have come before the run could rest: then it is due at once.
  const { resolution } = checkpoint.run;
  restRun(checkpoint, 'wait', { waitReason: reasonOf(key), waitKey: key, resolution, dueAt: resolution ? checkpoint.now : dueAt ? new Date(dueAt) : null });
}

/** What was not sent for its target's sake rests until the target's turn; anything else is due again at once. */
function waitForTarget(checkpoint: Checkpoint, attempt: Attempt): void {
  const { origin, until } = attempt.output as { origin?: string; until?: string | null };
  if (origin === undefined) return restRun(checkpoint, 'release', { dueAt: checkpoint.now });
  restRun(checkpoint, 'wait', { waitReason: 'target', waitKey: targetKey(origin), resolution: null, dueAt: until ? new Date(until) : null });
}

async function retry(checkpoint: Checkpoint, _version: Version, attempt: Attempt): Promise<void> {
  const before = tallyBefore(await attemptsOf(checkpoint, attempt.seq), attempt.n);
  const earlier = attempt.status === 'uncertain' ? before.uncertain : before.failed;
  const delayMs = retryDelay(earlier + 1, Math.random(), { retryAfterMs: attempt.failure?.retryAfterMs });
  restRun(checkpoint, 'retry', { n: attempt.n + 1, waitReason: null, waitKey: null, resolution: null, dueAt: new Date(checkpoint.now.getTime() + delayMs) });
}

function failureOf({ failure, node }: Attempt) {
  return failure ?? { code: 'config_invalid' as const, message: `The step "${node}" failed without saying why` };
}

function reasonOf(key: string): 'mail' | 'event' {
  const [kind] = key.split(':', 1);
  if (kind === 'mail' || kind === 'event') return kind;
  throw new Error(`Nothing resolves the key "${key}"`);
}

export function isPaused({ workflow }: Checkpoint): boolean {
  return workflow.status === 'paused';
}
