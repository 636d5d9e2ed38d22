import { FAILURES } from '@onward/contracts/errors';
import type { Outcome } from '@onward/contracts/outcome';
import type { Tally } from '@onward/contracts/patterns';
import type { Blocked } from '@onward/contracts/targets';
import type { PlanNode } from '@onward/contracts/plan';
import { asRecorded, judge } from '@onward/workflow-graph/judge';
import type { Attempt, AttemptStatus } from '../runs/attempt.entity.js';
import { later } from '../targets/change-target.js';

const STATUS_OF = {
  done: 'done',
  wait: 'waiting',
  suspended: 'waiting',
  failed: 'failed',
  uncertain: 'uncertain',
  not_sent: 'not_sent',
} as const satisfies Record<Outcome['kind'], AttemptStatus>;

/** How often the step failed or stayed uncertain before attempt `n`. */
export function tallyBefore(attempts: readonly Attempt[], n: number): Tally {
  const earlier = attempts.filter((attempt) => attempt.n < n);
  return { failed: earlier.filter(({ status }) => status === 'failed').length, uncertain: earlier.filter(({ status }) => status === 'uncertain').length };
}

/** The attempt with its outcome recorded and judged. Judgement is the same function that the worker asks. */
export function withOutcome(attempt: Attempt, told: Outcome, node: PlanNode, tally: Tally, now: Date): Attempt {
  const outcome = asRecorded(told, node);
  const judgement = judge(outcome, node, tally);
  const recorded: Attempt = {
    ...attempt,
    status: STATUS_OF[outcome.kind],
    verb: judgement.verb,
    port: judgement.verb === 'advance' ? judgement.port : null,
    output: null,
    failure: null,
    warnings: null,
    mark: null,
    endedAt: outcome.kind === 'wait' || outcome.kind === 'suspended' ? null : now,
  };
  switch (outcome.kind) {
    case 'done':
      return { ...recorded, output: outcome.output, warnings: outcome.warnings ?? null, mark: outcome.mark ?? null };
    case 'wait':
      return { ...recorded, output: { dueAt: outcome.dueAt, why: outcome.why } };
    case 'suspended':
      return { ...recorded, output: { key: outcome.key, why: outcome.why, ...(outcome.dueAt ? { dueAt: outcome.dueAt } : {}) } };
    case 'failed':
    case 'uncertain':
      return { ...recorded, failure: outcome.failure };
    case 'not_sent':
      return { ...recorded, output: { why: outcome.why, ...(outcome.blocked ? whereAndUntil(outcome.blocked, now) : {}) } };
  }
}

/** What keeps the run from its target, as the park needs it (close-step.ts). */
function whereAndUntil({ origin, inMs }: Blocked, now: Date): { origin: string; until: string } {
  return { origin, until: later(now, inMs).toISOString() };
}

/** The outcome an attempt was recorded with; null while it has none. */
export function outcomeOf(attempt: Attempt): Outcome | null {
  switch (attempt.status) {
    case 'open':
    case 'sending':
      return null;
    case 'done':
      return {
        kind: 'done',
        output: attempt.output,
        ...(attempt.port && attempt.port !== 'next' ? { port: attempt.port } : {}),
        ...(attempt.warnings ? { warnings: attempt.warnings } : {}),
        ...(attempt.mark ? { mark: attempt.mark } : {}),
      };
    case 'waiting': {
      const { key, dueAt, why } = attempt.output as { key?: string; dueAt?: string; why: string };
      return key === undefined ? { kind: 'wait', dueAt: dueAt as string, why } : { kind: 'suspended', key, why, ...(dueAt ? { dueAt } : {}) };
    }
    case 'failed':
    case 'uncertain':
      return { kind: attempt.status, failure: attempt.failure ?? { code: 'config_invalid', message: FAILURES.config_invalid.title } };
    case 'not_sent':
      return { kind: 'not_sent', why: (attempt.output as { why: string }).why };
  }
}
