import type { ReplyOf, RequestOf, RuntimePattern } from '@onward/contracts/patterns';
import type { Checkpoint, StepRef } from './checkpoint.js';
import { advanceRun, deadLetterRun, failRun, retryRun, succeedRun, waitRun } from './close-calls.js';
import { createAttempt } from './create-attempt.js';
import { executeAction } from './execute-action.js';
import { getPlan } from './get-plan.js';
import { latestAttempt } from './latest-attempt.js';
import { notifyFailed } from './notify-failed.js';
import { prepareRun } from './prepare-run.js';
import type { RuntimeKit } from './runtime-kit.js';
import { updateAttempt } from './update-attempt.js';

type Handler<P extends RuntimePattern> = (checkpoint: Checkpoint, request: RequestOf<P> & StepRef, kit: RuntimeKit) => Promise<ReplyOf<P>>;

/** The 13 patterns and the function behind each. A renewal never comes here: it locks no run (renew-leases.ts). */
export const HANDLERS = {
  'automation.runtime.run.prepare': (checkpoint, request, kit) => prepareRun(checkpoint, request as Parameters<typeof prepareRun>[1], kit),
  'automation.runtime.plan.get': getPlan,
  'automation.runtime.action.execute': executeAction,
  'automation.runtime.attempt.latest': latestAttempt,
  'automation.runtime.attempt.create': createAttempt,
  'automation.runtime.attempt.update': updateAttempt,
  'automation.runtime.run.advance': advanceRun,
  'automation.runtime.run.wait': waitRun,
  'automation.runtime.run.succeed': succeedRun,
  'automation.runtime.run.fail': failRun,
  'automation.runtime.run.retry': retryRun,
  'automation.runtime.run.dead-letter': deadLetterRun,
  'automation.runtime.run.notify-failed': notifyFailed,
} as const satisfies { [P in RuntimePattern]: Handler<P> };
