import type { Defect } from '@onward/workflow-graph/validate-graph';
import type { DataSource } from 'typeorm';
import type { ActionCatalogue } from '../actions/action-catalogue.js';
import { newId } from '../database/new-id.js';
import { change, rows, transact } from '../database/sql.js';
import { Problem } from '../http/problem.js';
import { checkUses } from '../secrets/check-uses.js';
import { checkGraph, refuseGraph } from './check-graph.js';
import { checkNotArchived, checkRevision, lockWorkflow } from './lock-workflow.js';
import { triggerOf } from './trigger-of.js';
import { type WorkflowSettings, workflowSettingsSchema } from './workflow-settings.js';

export type Published = { versionId: string; number: number; warnings: Defect[] };

/**
 * Makes the draft the next version, which never changes again: new runs take it, runs under way stay on theirs. Its trigger becomes the one
 * that dispatchers read. A draft becomes active; what is active or paused stays so. A graph unfit to run is refused with all its
 * defects, and nothing changes.
 */
export function publishWorkflow(
  source: DataSource,
  catalogue: ActionCatalogue,
  id: string,
  { publishedBy, expectedRevision }: { publishedBy: string; expectedRevision: number | undefined },
): Promise<Published> {
  return transact(source, async (tx) => {
    const workflow = await lockWorkflow(tx, id);
    checkNotArchived(workflow);
    checkRevision(workflow, expectedRevision);
    const { graph, defects, warnings } = checkGraph(catalogue, workflow.draft, 'publish');
    if (graph === null || defects.length > 0) throw refuseGraph(workflow.draft, defects, 'The draft cannot be published');
    const misuses = await checkUses(tx, catalogue, graph);
    if (misuses.length > 0) throw refuseGraph(workflow.draft, misuses, 'The draft cannot be published');

    const settings = readSettings(workflow.settings);

    const versionId = newId();
    const [version] = await rows<{ number: number }>(
      tx,
      `INSERT INTO workflow_versions (id, workflow_id, number, graph, settings, published_by, published_at)
       SELECT $1, $2, coalesce(max(number), 0) + 1, $3, $4, $5, clock_timestamp() FROM workflow_versions WHERE workflow_id = $2
       RETURNING number`,
      [versionId, id, JSON.stringify(graph), JSON.stringify(settings), publishedBy],
    );
    await change(
      tx,
      `UPDATE workflows SET version_id = $2, trigger = $3, status = CASE status WHEN 'draft' THEN 'active' ELSE status END, updated_at = clock_timestamp()
        WHERE id = $1`,
      [id, versionId, JSON.stringify(triggerOf(graph))],
    );
    return { versionId, number: version?.number ?? 1, warnings };
  });
}

/** Settings written by hand may be anything; a version has ones that can be read. */
function readSettings(stored: unknown): WorkflowSettings {
  const read = workflowSettingsSchema.safeParse(stored);
  if (read.success) return read.data;
  throw new Problem('unprocessable', 'The settings of the draft cannot be read', {
    errors: read.error.issues.map(({ path, message }) => ({ path: ['settings', ...path].join('.'), message })),
  });
}
