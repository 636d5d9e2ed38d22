import type { Run } from '../runs/run.entity.js';
import { newId } from '../database/new-id.js';
import { planWakeUp } from '../database/outbox.js';
import { type Checkpoint, changeRun } from './checkpoint.js';
import { type Move, stateAfter } from './moves.js';

/** Only runs due this soon get a queue entry; the sweeper finds the others when their time comes near. */
export const WAKE_AHEAD_MS = 30_000;

type Resting = Pick<Partial<Run>, 'waitReason' | 'waitKey' | 'resolution' | 'isHeld' | 'n'> & { dueAt: Date | null };

/**
 * Lays the run to rest by `move` until `dueAt`, or until somebody resolves its key. Mints the claimId under which it is taken up again and,
 * when it is due soon, has the queue told after the commit; not of a run that waits for its target, which the sweeper lets go.
 */
export function restRun(checkpoint: Checkpoint, move: Extract<Move, 'wait' | 'ask' | 'retry' | 'release'>, resting: Resting): void {
  const claimId = newId();
  const delayMs = resting.dueAt ? Math.max(0, resting.dueAt.getTime() - checkpoint.now.getTime()) : null;
  const isParked = resting.waitReason === 'target';
  const isSoon = delayMs !== null && delayMs <= WAKE_AHEAD_MS && !resting.isHeld && !isParked;
  const isTold = isSoon && planWakeUp(checkpoint.group.tx, { runId: checkpoint.run.id, claimId, workflowId: checkpoint.run.workflowId, delayMs });
  changeRun(checkpoint, {
    ...resting,
    state: stateAfter(checkpoint.run.state, move),
    claimId,
    handOutId: null,
    leaseUntil: null,
    wokenAt: isTold ? checkpoint.realNow : null,
  });
}
