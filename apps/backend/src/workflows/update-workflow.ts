import type { DataSource } from 'typeorm';
import type { ActionCatalogue } from '../actions/action-catalogue.js';
import { change, transact } from '../database/sql.js';
import { checkGraph, refuseGraph } from './check-graph.js';
import { jsonOrNull, type NewWorkflow } from './create-workflow.js';
import { checkNotArchived, checkRevision, lockWorkflow } from './lock-workflow.js';
import { triggerOf } from './trigger-of.js';

/**
 * Changes the draft; what is left out stays. Runs and the published version are not touched: publishing takes the draft over. A graph
 * unfit to be saved is refused with all its defects, and nothing is stored. A draft that is stored with defects can be mended this way.
 */
export async function updateWorkflow(
  source: DataSource,
  catalogue: ActionCatalogue,
  id: string,
  { name, description, graph: sent, settings }: Partial<NewWorkflow>,
  expectedRevision: number | undefined,
): Promise<void> {
  const checked = sent === undefined ? undefined : checkGraph(catalogue, sent, 'draft');
  if (checked && (checked.graph === null || checked.defects.length > 0)) throw refuseGraph(sent, checked.defects, 'The graph cannot be saved');
  await transact(source, async (tx) => {
    const workflow = await lockWorkflow(tx, id);
    checkNotArchived(workflow);
    checkRevision(workflow, expectedRevision);
    await change(
      tx,
      `UPDATE workflows SET name = coalesce($2, name), description = coalesce($3, description), settings = coalesce($4, settings),
              draft = coalesce($5, draft), draft_trigger = CASE WHEN $5::jsonb IS NULL THEN draft_trigger ELSE $6 END,
              revision = revision + 1, updated_at = clock_timestamp()
        WHERE id = $1`,
      [
        id,
        name ?? null,
        description ?? null,
        settings === undefined ? null : JSON.stringify(settings),
        checked === undefined ? null : JSON.stringify(checked.graph),
        checked === undefined ? null : jsonOrNull(triggerOf(checked.graph)),
      ],
    );
  });
}
