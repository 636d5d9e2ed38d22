import type { Outcome } from '@onward/contracts/outcome';
import type { AllowList } from '@onward/egress/allow-list';
import type { FailPoints } from '@onward/wire/fail-points';
import type { Step } from './conversation.js';
import { performRequest } from './perform-request.js';
import type { Targets } from './targets/targets.js';

/**
 * Performs the step in hand: nothing when the backend has done it already, otherwise the request goes through the gate of its target and is sent,
 * once. Right before the first byte it is asked whether it may still be sent: not when the process is stopping, and not without a confirmed lease. Never throws.
 * `cut` ends sends in flight: what had left is then uncertain.
 */
export function createPerform({ allow, cut, targets, failPoints }: { allow: AllowList; cut: AbortSignal; targets: Targets; failPoints: FailPoints }) {
  return async ({ work, lease }: Step, stopping: AbortSignal): Promise<Outcome> => {
    if (work.kind === 'outcome') return work.outcome;
    return targets.send(work.target, {
      signals: [stopping, lease.lost],
      whyNot: () => {
        if (stopping.aborted) return 'the worker is stopping';
        return lease.isConfirmed() ? undefined : 'the lease was not confirmed in time';
      },
      send: async () => {
        failPoints.reach('worker.before-send');
        const outcome = await performRequest(work.request, { allow, signal: AbortSignal.any([cut, lease.lost]), now: () => new Date() });
        failPoints.reach('worker.after-send');
        return outcome;
      },
    });
  };
}
