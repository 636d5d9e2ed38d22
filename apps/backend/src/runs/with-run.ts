import type { DataSource } from 'typeorm';
import { type Teller, transactAndTell } from '../database/outbox.js';
import { Problem } from '../http/problem.js';
import { type Checkpoint, lockRun } from '../runtime/checkpoint.js';
import { saveCheckpoints } from '../runtime/save-checkpoints.js';

/** Locks a run, lets an operator's verb change it, and commits. Throws Problem `not_found` for an unknown id. */
export function withRun<Result>(source: DataSource, teller: Teller, runId: string, work: (checkpoint: Checkpoint) => Promise<Result>): Promise<Result> {
  return transactAndTell(source, teller, async (tx) => {
    const checkpoint = await lockRun(tx, runId);
    if (!checkpoint) throw new Problem('not_found', `There is no run ${runId}`);
    const result = await work(checkpoint);
    await saveCheckpoints(tx, [checkpoint]);
    return result;
  });
}
