import type { Tx } from '../database/sql.js';
import { Problem } from '../http/problem.js';
import { Workflow } from './workflow.entity.js';

/**
 * Locks a workflow for a change, or refuses with not_found. The lock is one that runs being started do not wait for, unless the workflow
 * is to be deleted.
 */
export async function lockWorkflow(tx: Tx, id: string, { toDelete = false } = {}): Promise<Workflow> {
  const workflow = await tx.findOne(Workflow, { where: { id }, lock: { mode: toDelete ? 'pessimistic_write' : 'for_no_key_update' } });
  if (!workflow) throw new Problem('not_found', 'There is no such workflow');
  return workflow;
}

/** Refuses when somebody has changed the draft since the caller read it. */
export function checkRevision({ revision }: Workflow, expected: number | undefined): void {
  if (expected === undefined || expected === revision) return;
  throw new Problem('conflict', `The draft has been changed meanwhile: it is at revision ${revision}, not ${expected}`);
}

/** Refuses for an archived workflow, which is kept as it is. */
export function checkNotArchived({ archivedAt }: Workflow): void {
  if (archivedAt !== null) throw new Problem('conflict', 'The workflow is archived; take it out of the archive first');
}
