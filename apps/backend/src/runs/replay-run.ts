import { newId } from '../database/new-id.js';
import { planWakeUp } from '../database/outbox.js';
import { change, rows } from '../database/sql.js';
import { Problem } from '../http/problem.js';
import { attemptsOf, type Checkpoint, changeRun, writeAttempt } from '../runtime/checkpoint.js';
import { canMove, stateAfter } from '../runtime/moves.js';
import { blank } from '../runtime/pass-nodes.js';
import type { Version, VersionReader } from '../workflows/read-version.js';
import { reentryKeyOf } from './reentry-key.js';

/**
 * Sends a failed or dead-lettered run back from the node at which it ended, on its own version or on a chosen one. The step is opened
 * anew under the next seq, so what ran before stays in the history and never runs again. A second replay finds the run no longer
 * ended and is a conflict, and so is one whose contact is by now in another live run of the workflow.
 */
export async function replayRun(checkpoint: Checkpoint, { versionId }: { versionId?: string | undefined }, versions: VersionReader): Promise<void> {
  const { run } = checkpoint;
  if (!canMove(run.state, 'replay')) throw new Problem('conflict', `Run ${run.id} is ${run.state}; only a failed or dead-lettered run can be replayed`);
  const version = await chosenVersion(checkpoint, versionId ?? run.versionId, versions);
  if (!version.compiled.node(run.node)) {
    throw new Problem('unprocessable', `Version ${version.number} has no node "${run.node}" to begin at`, {
      errors: [{ path: 'versionId', message: `has no node "${run.node}"` }],
    });
  }
  await reopenAt(checkpoint, version, run.node);
}

/**
 * Opens a step at `node` under the next seq, on the given version. At the node at which the run ended an uncertain request is kept. Throws
 * Problem `conflict` when the workflow is archived, or the contact is by now in another live run of it.
 */
export async function reopenAt(checkpoint: Checkpoint, version: Version, node: string): Promise<void> {
  const { tx, run } = checkpoint;
  const [workflow] = await rows<{ archivedAt: Date | null }>(tx, 'SELECT archived_at AS "archivedAt" FROM workflows WHERE id = $1', [run.workflowId]);
  if (workflow?.archivedAt) throw new Problem('conflict', 'The workflow is archived; take it out of the archive first');
  const reentryKey =
    version.settings.reentry === 'after_finishing' && run.contactId !== null ? reentryKeyOf({ workflowId: run.workflowId, contactId: run.contactId }) : null;
  if (reentryKey !== null) {
    const [live] = await rows<{ id: string }>(tx, 'SELECT id FROM runs WHERE reentry_key = $1', [reentryKey]);
    if (live) throw new Problem('conflict', `The contact is in another run of this workflow: ${live.id}`);
  }
  const failed = (await attemptsOf(checkpoint, run.seq)).at(-1);
  const claimId = newId();
  const seq = run.seq + 1;
  writeAttempt(checkpoint, { ...blank(checkpoint, seq, node, version.compiled.node(node)?.type ?? 'unknown'), replayOf: run.seq });
  changeRun(checkpoint, {
    state: stateAfter(run.state, 'replay'),
    versionId: version.versionId,
    node,
    seq,
    n: 1,
    takeovers: 0,
    dueAt: checkpoint.now,
    wokenAt: planWakeUp(tx, { runId: run.id, claimId, workflowId: run.workflowId, delayMs: 0 }) ? checkpoint.realNow : null,
    claimId,
    reentryKey,
    endReason: null,
    endedAt: null,
  });
  if (node === run.node && failed?.status === 'uncertain' && version.versionId === run.versionId) await keepRequest(checkpoint, run.seq, seq);
}

/** What may have happened is sent again under the same key and with the same body, so that the target can tell. */
async function keepRequest({ tx, run }: Checkpoint, from: number, to: number): Promise<void> {
  await change(
    tx,
    `INSERT INTO outbound_requests (run_id, seq, request, idempotency_key, body_hash)
     SELECT run_id, $3, request, idempotency_key, body_hash FROM outbound_requests WHERE run_id = $1 AND seq = $2`,
    [run.id, from, to],
  );
}

async function chosenVersion({ tx, run }: Checkpoint, versionId: string, versions: VersionReader) {
  const [found] = await rows(tx, 'SELECT 1 FROM workflow_versions WHERE id = $1 AND workflow_id = $2', [versionId, run.workflowId]);
  if (!found)
    throw new Problem('unprocessable', `The run's workflow has no version ${versionId}`, {
      errors: [{ path: 'versionId', message: 'is not a version of this workflow' }],
    });
  return versions.get(tx, versionId);
}
