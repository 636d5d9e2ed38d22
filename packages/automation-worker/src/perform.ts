import type { Outcome } from '@onward/contracts/outcome';
import type { AllowList } from '@onward/egress/allow-list';
import type { FailPoints } from '@onward/wire/fail-points';
import type { Step } from './conversation.js';
import { performRequest } from './perform-request.js';

/**
 * Performs the step in hand: nothing when the backend has done it already, otherwise the request is sent, once. Right before the first byte
 * it asks whether it may still be sent: not when the process is stopping, and not without a confirmed lease. Never throws.
 * `cut` ends sends in flight: what had left is then uncertain.
 */
export function createPerform({ allow, cut, failPoints }: { allow: AllowList; cut: AbortSignal; failPoints: FailPoints }) {
  return async ({ work, lease }: Step, stopping: AbortSignal): Promise<Outcome> => {
    if (work.kind === 'outcome') return work.outcome;
    if (stopping.aborted) return { kind: 'not_sent', why: 'the worker is stopping' };
    failPoints.reach('worker.before-send');
    if (!lease.isConfirmed()) return { kind: 'not_sent', why: 'the lease was not confirmed in time' };
    const outcome = await performRequest(work.request, { allow, signal: AbortSignal.any([cut, lease.lost]), now: () => new Date() });
    failPoints.reach('worker.after-send');
    return outcome;
  };
}
