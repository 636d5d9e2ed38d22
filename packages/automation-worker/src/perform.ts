import type { Outcome } from '@onward/contracts/outcome';
import type { AllowList } from '@onward/egress/allow-list';
import type { FailPoints } from '@onward/wire/fail-points';
import { openSecrets } from '@onward/wire/sealed-secrets';
import type { Step } from './conversation.js';
import { performRequest } from './perform-request.js';
import type { Targets } from './targets/targets.js';

/** When a request whose secrets could not be opened is tried again. */
const UNOPENED_MS = 30_000;

/**
 * Performs the step in hand: nothing when the backend has done it already, otherwise the request goes through the gate of its target and is sent,
 * once. Right before the first byte it is asked whether it may still be sent: not when the process is stopping, and not without a confirmed lease. Never throws.
 * `secret` is the one shared with the backend, under which the values of the request's secrets come sealed.
 * `cut` ends sends in flight: what had left is then uncertain.
 */
export function createPerform({
  allow,
  cut,
  targets,
  failPoints,
  secret,
}: {
  allow: AllowList;
  cut: AbortSignal;
  targets: Targets;
  failPoints: FailPoints;
  secret: string;
}) {
  return async ({ work, lease, runId, seq }: Step, stopping: AbortSignal): Promise<Outcome> => {
    if (work.kind === 'outcome') return work.outcome;
    const secrets = openSecrets(work.secrets ?? [], { secret, step: `${runId}|${seq}` });
    if (secrets === null) {
      // Another worker may open them, or this one once it is set up as the backend is.
      const { origin, breakerNo } = work.target;
      return {
        kind: 'not_sent',
        why: 'the secrets of the request cannot be opened by this worker',
        blocked: { origin, by: 'held', inMs: UNOPENED_MS, breakerNo },
      };
    }
    return targets.send(work.target, {
      signals: [stopping, lease.lost],
      whyNot: () => {
        if (stopping.aborted) return 'the worker is stopping';
        return lease.isConfirmed() ? undefined : 'the lease was not confirmed in time';
      },
      send: async () => {
        failPoints.reach('worker.before-send');
        // Asked after the last place where this process can be stopped.
        if (!lease.isConfirmed()) return { kind: 'not_sent', why: 'the lease was not confirmed in time' };
        const outcome = await performRequest(work.request, { allow, secrets, signals: [cut, lease.lost], now: () => new Date() });
        failPoints.reach('worker.after-send');
        return outcome;
      },
    });
  };
}
