import type { DataSource } from 'typeorm';
import type { ActionCatalogue } from '../actions/action-catalogue.js';
import { newId } from '../database/new-id.js';
import { change } from '../database/sql.js';
import { checkGraph, refuseGraph } from './check-graph.js';
import { triggerOf } from './trigger-of.js';
import type { WorkflowSettings } from './workflow-settings.js';

export type NewWorkflow = { name: string; description: string; graph: unknown; settings: WorkflowSettings };

/** Stores a new draft and answers its id. A graph unfit to be saved is refused with all its defects, and nothing is stored. */
export async function createWorkflow(
  source: DataSource,
  catalogue: ActionCatalogue,
  { name, description, graph: sent, settings }: NewWorkflow,
): Promise<string> {
  const { graph, defects } = checkGraph(catalogue, sent, 'draft');
  if (graph === null || defects.length > 0) throw refuseGraph(sent, defects, 'The graph cannot be saved');
  const id = newId();
  await change(source, 'INSERT INTO workflows (id, name, description, draft, draft_trigger, settings) VALUES ($1, $2, $3, $4, $5, $6)', [
    id,
    name,
    description,
    JSON.stringify(graph),
    jsonOrNull(triggerOf(graph)),
    JSON.stringify(settings),
  ]);
  return id;
}

/** A value for a jsonb column that may be empty: SQL null instead of JSON's. */
export function jsonOrNull(value: object | null): string | null {
  return value === null ? null : JSON.stringify(value);
}
