import type { Outcome } from '@onward/contracts/outcome';
import type { WakeUp } from '@onward/contracts/queues';
import type { Rest, Step, Turn } from './conversation.js';

export type Driver = {
  backend: {
    begin(wakeUp: WakeUp, callId: number): Promise<Turn>;
    record(step: Step, outcome: Outcome, stopping: AbortSignal): Promise<Turn>;
  };
  /** Never throws: what goes wrong is an outcome. */
  perform(step: Step, stopping: AbortSignal): Promise<Outcome>;
  stopping: AbortSignal;
};

/**
 * Drives one run from its last checkpoint until it rests (waits, ends, is refused).
 * A wake-up says only "look at this run": it may come twice, late or never; `prepare` decides who works.
 * If anything here throws, what happened is unknown; the job is handed out again and `prepare` reconciles.
 */
export async function drive(wakeUp: WakeUp, callId: number, { backend, perform, stopping }: Driver): Promise<Rest> {
  let next = await backend.begin(wakeUp, callId); // run.prepare, plan.get, attempt.create, action.execute: one frame
  while (next.kind === 'step') {
    const outcome = await perform(next.step, stopping); // a backend-owned action's outcome came with the step
    next = await backend.record(next.step, outcome, stopping); // attempt.update, run.advance | wait | retry | …, next attempt: one frame
  }
  return next;
}
