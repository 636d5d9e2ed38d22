import type { DataSource } from 'typeorm';
import { change, rows, transact } from '../database/sql.js';
import { Problem } from '../http/problem.js';
import { checkNotArchived, lockWorkflow } from './lock-workflow.js';

/**
 * The moves of a workflow's status beside publishing. Each may be repeated: what is so already stays so. None looks into the graph, so a
 * workflow whose graph has become defective can always be paused, resumed and put away.
 */

/** No run is started or moved from now on; the runtime holds what is under way at its next checkpoint. */
export function pauseWorkflow(source: DataSource, id: string): Promise<void> {
  return transact(source, async (tx) => {
    const { status } = await lockWorkflow(tx, id);
    if (status === 'draft') throw new Problem('conflict', 'The workflow was never published, so there is nothing to pause');
    if (status === 'active') await change(tx, `UPDATE workflows SET status = 'paused', updated_at = clock_timestamp() WHERE id = $1`, [id]);
  });
}

/** Runs are started and moved again; what came due meanwhile is released by the sweeper, paced. */
export function resumeWorkflow(source: DataSource, id: string): Promise<void> {
  return transact(source, async (tx) => {
    const workflow = await lockWorkflow(tx, id);
    checkNotArchived(workflow);
    if (workflow.status === 'draft') throw new Problem('conflict', 'The workflow was never published; publishing makes it active');
    if (workflow.status === 'paused') await change(tx, `UPDATE workflows SET status = 'active', updated_at = clock_timestamp() WHERE id = $1`, [id]);
  });
}

/** Puts a draft or paused workflow out of sight. It keeps its versions, runs and history. */
export function archiveWorkflow(source: DataSource, id: string): Promise<void> {
  return transact(source, async (tx) => {
    const { status } = await lockWorkflow(tx, id);
    if (status === 'active') throw new Problem('conflict', 'The workflow is active; pause it before it is archived');
    await change(tx, 'UPDATE workflows SET archived_at = clock_timestamp(), updated_at = clock_timestamp() WHERE id = $1 AND archived_at IS NULL', [id]);
  });
}

export function unarchiveWorkflow(source: DataSource, id: string): Promise<void> {
  return transact(source, async (tx) => {
    await lockWorkflow(tx, id);
    await change(tx, 'UPDATE workflows SET archived_at = NULL, updated_at = clock_timestamp() WHERE id = $1 AND archived_at IS NOT NULL', [id]);
  });
}

/** Deletes a workflow that never had a run, versions and all. One that had is history, which is archived instead. */
export function deleteWorkflow(source: DataSource, id: string): Promise<void> {
  return transact(source, async (tx) => {
    const { status } = await lockWorkflow(tx, id, { toDelete: true });
    if (status === 'active') throw new Problem('conflict', 'The workflow is active; pause it first');
    const had = await rows(tx, 'SELECT 1 WHERE EXISTS (SELECT FROM runs WHERE workflow_id = $1) OR EXISTS (SELECT FROM run_entries WHERE workflow_id = $1)', [
      id,
    ]);
    if (had.length > 0) throw new Problem('conflict', 'The workflow has had runs; archive it instead, and their history stays');
    await change(tx, 'DELETE FROM workflows WHERE id = $1', [id]);
  });
}
