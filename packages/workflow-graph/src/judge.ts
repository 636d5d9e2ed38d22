import { FAILURES, type FailureCode } from '@onward/contracts/errors';
import type { Failure, Outcome } from '@onward/contracts/outcome';
import type { Tally, Verb } from '@onward/contracts/patterns';
import type { PlanNode } from '@onward/contracts/plan';

/**
 * Judges what a try of a step came to: which verb the step needs next. Worker and backend ask this one function, so they agree.
 * Pure and total. Imports contracts only, because a worker takes nothing else from this package.
 *
 * Waits, suspensions, sends that never left and uncertain sends are not failures: they never end a run as `fail`.
 * What is not decided here: when a retry is due (retry-delay.ts), where a port leads (interpret.ts), and cancel, exit and step cap.
 */

/** So many attempts of one step may end `failed` before it is over. */
export const MAX_ATTEMPTS = 3;
/** A send that may or may not have happened is repeated at most this often. */
export const MAX_UNCERTAIN_RESENDS = 3;

export type Judgement = { verb: 'advance'; port: string } | { verb: Exclude<Verb, 'advance'>; port?: undefined };

/** Failures without a complete answer, and whether bytes are taken to have left when the sender does not say so. */
const UNANSWERED: Partial<Record<FailureCode, boolean>> = { timeout: true, response_cut: true, network: false };

/** Did bytes leave and no complete answer come back? The sender says in the detail whether they left. */
function mayHaveHappened({ code, detail }: Failure): boolean {
  const hasLeftByDefault = UNANSWERED[code];
  if (hasLeftByDefault === undefined) return false;
  const said = typeof detail === 'object' && detail !== null && !Array.isArray(detail) ? detail['mayHaveBeenSent'] : undefined;
  return typeof said === 'boolean' ? said : hasLeftByDefault;
}

/**
 * The outcome as it is recorded and judged. Under the policy `stop` nobody may guess what a target did with bytes that left and were not
 * answered: what the sender calls failed is uncertain then. Under `resend` it stays a failure, which the same key makes safe to repeat.
 */
export function asRecorded(outcome: Outcome, { uncertainPolicy }: Pick<PlanNode, 'uncertainPolicy'>): Outcome {
  if (outcome.kind !== 'failed' || uncertainPolicy !== 'stop' || !mayHaveHappened(outcome.failure)) return outcome;
  return { kind: 'uncertain', failure: outcome.failure };
}

/** `tally` counts the failed and uncertain attempts of this step before the outcome in hand. */
export function judge(told: Outcome, node: Pick<PlanNode, 'hasFailedPort' | 'uncertainPolicy'>, tally: Tally): Judgement {
  const outcome = asRecorded(told, node);
  switch (outcome.kind) {
    case 'done':
      return { verb: 'advance', port: outcome.port ?? 'next' };
    case 'wait':
    case 'suspended':
    case 'not_sent':
      return { verb: 'wait' };
    case 'uncertain':
      return { verb: node.uncertainPolicy === 'resend' && tally.uncertain < MAX_UNCERTAIN_RESENDS ? 'retry' : 'dead-letter' };
    case 'failed':
      return judgeFailure(outcome.failure, node, tally);
  }
}

function judgeFailure({ code }: Failure, node: Pick<PlanNode, 'hasFailedPort'>, tally: Tally): Judgement {
  const { retryable } = FAILURES[code];
  if (retryable && tally.failed + 1 < MAX_ATTEMPTS) return { verb: 'retry' };
  if (node.hasFailedPort) return { verb: 'advance', port: 'failed' };
  return { verb: retryable ? 'dead-letter' : 'fail' };
}
