import type { Failure } from '@onward/contracts/outcome';
import { newId } from '../database/new-id.js';
import { rows } from '../database/sql.js';
import { storableJson } from '../database/storable-json.js';
import { emitOwn } from '../events/emit-own.js';
import { type Checkpoint, changeRun } from './checkpoint.js';
import { stateAfter } from './moves.js';
import { depthOf } from './read-scope.js';
import type { RuntimeKit } from './runtime-kit.js';

/** How a run ends: well, for good with a failure, given up, or cancelled with its reason. */
export type End = { move: 'succeed' } | { move: 'fail' | 'bury'; failure: Failure } | { move: 'cancel'; reason: string };

/** Ends the run where it stands. A failure writes its notice in the same transaction; `run.succeeded` or `run.failed` is emitted in it too. */
export function endRun(checkpoint: Checkpoint, end: End, kit: Pick<RuntimeKit, 'bus'>): void {
  const failure = 'failure' in end ? end.failure : null;
  const state = stateAfter(checkpoint.run.state, end.move);
  changeRun(checkpoint, {
    state,
    dueAt: null,
    wokenAt: null,
    isHeld: false,
    handOutId: null,
    leaseUntil: null,
    waitReason: null,
    waitKey: null,
    resolution: null,
    isCancelAsked: false,
    reentryKey: null,
    endReason: failure ? failure.code : end.move === 'cancel' ? end.reason : null,
    endedAt: checkpoint.now,
  });
  const { id: runId, seq, node, contactId, workflowId } = checkpoint.run;
  if (failure) {
    checkpoint.after.push(async (tx) => {
      await rows(tx, `INSERT INTO notices (id, run_id, seq, state, node, failure) VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT (run_id, seq) DO NOTHING`, [
        newId(),
        runId,
        seq,
        state,
        node,
        storableJson(failure),
      ]);
    });
  }
  if (end.move === 'cancel') return;
  const type = failure ? 'run.failed' : 'run.succeeded';
  const { reads } = checkpoint.group;
  checkpoint.after.push(async (tx) => {
    if (!(await reads.wants(kit.bus, type))) return;
    const depth = await depthOf(checkpoint);
    await emitOwn(tx, kit.bus, { type, contactId, payload: { runId, workflowId, node, ...(failure ? { error: failure.code } : {}) }, depth: depth + 1 });
  });
}
