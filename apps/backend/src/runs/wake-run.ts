import { newId } from '../database/new-id.js';
import { planWakeUp } from '../database/outbox.js';
import { Problem } from '../http/problem.js';
import { type Checkpoint, changeRun } from '../runtime/checkpoint.js';

/** Tries a failed step again now instead of at its time. Spends no attempt by itself. */
export function retryNow(checkpoint: Checkpoint): void {
  if (checkpoint.run.state !== 'retrying')
    throw new Problem('conflict', `Run ${checkpoint.run.id} is ${checkpoint.run.state}; only one that is retrying can be retried now`);
  makeDue(checkpoint);
}

/** Ends a wait by time now. A wait for something that must come from outside cannot be ended so. */
export function wakeNow(checkpoint: Checkpoint): void {
  const { id, state, waitReason } = checkpoint.run;
  if (state !== 'waiting' || waitReason !== 'time') throw new Problem('conflict', `Run ${id} is not in a wait by time`);
  makeDue(checkpoint);
}

function makeDue(checkpoint: Checkpoint): void {
  const claimId = newId();
  const isTold = planWakeUp(checkpoint.tx, { runId: checkpoint.run.id, claimId, workflowId: checkpoint.run.workflowId, delayMs: 0 });
  changeRun(checkpoint, { dueAt: checkpoint.now, claimId, wokenAt: isTold ? checkpoint.realNow : null });
}
