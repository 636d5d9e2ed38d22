import type { EventBus } from '../events/event-bus.js';
import { Problem } from '../http/problem.js';
import { type Checkpoint, changeRun } from '../runtime/checkpoint.js';
import { endRun } from '../runtime/end-run.js';
import { leaveAttempt } from '../runtime/leave-attempt.js';
import { canMove } from '../runtime/moves.js';

export type Cancelled = 'now' | 'after_step' | 'before';

/**
 * Cancels a run: at once while it rests, after the step in hand while it is being moved. A step that finishes never overwrites it. What a worker that died
 * left being sent is recorded as uncertain.
 * Cancelling twice changes nothing; a run that ended otherwise is a conflict.
 */
export async function cancelRun(checkpoint: Checkpoint, bus: EventBus): Promise<Cancelled> {
  const { state, id, isCancelAsked } = checkpoint.run;
  if (state === 'cancelled' || (state === 'running' && isCancelAsked)) return 'before';
  if (!canMove(state, 'cancel')) throw new Problem('conflict', `Run ${id} has ended ${state} and cannot be cancelled`);
  if (state === 'running') {
    changeRun(checkpoint, { isCancelAsked: true });
    return 'after_step';
  }
  await leaveAttempt(checkpoint);
  endRun(checkpoint, { move: 'cancel', reason: 'cancelled by request' }, { bus });
  return 'now';
}
