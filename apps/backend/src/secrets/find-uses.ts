import type { DataSource } from 'typeorm';
import type { ActionCatalogue } from '../actions/action-catalogue.js';
import { rows, type Tx } from '../database/sql.js';

/** A published workflow that names a secret. */
export type SecretUser = { id: string; name: string; status: string };
/** One place in a graph where a secret is named. `path` leads to the field, from the node; `origin` is where its request goes as written. */
export type SecretUse = { node: string; path: string; name: string; origin: string };

type GraphNode = { id?: unknown; type?: unknown; config?: { action?: unknown; with?: unknown } | null };

/** Every place where a node of the graph names a secret. A graph or configuration that cannot be read names none. */
export function usesOf(catalogue: ActionCatalogue, graph: unknown): SecretUse[] {
  const nodes = (graph as { nodes?: GraphNode[] } | null)?.nodes;
  if (!Array.isArray(nodes)) return [];
  return nodes.flatMap(({ id, type, config }) => {
    const action = type === 'action' && typeof config?.action === 'string' ? catalogue.get(config.action) : undefined;
    if (action?.namesSecrets === undefined) return [];
    const read = action.config.safeParse(config?.with ?? {});
    if (!read.success) return [];
    return action.namesSecrets(read.data).map(({ name, path, origin }) => ({ node: String(id), path: ['config', 'with', ...path].join('.'), name, origin }));
  });
}

/** The published workflows that name secrets, by the secret's name; the version that new runs take counts. Archived ones are left out. */
export async function findUsers(source: DataSource | Tx, catalogue: ActionCatalogue): Promise<Map<string, SecretUser[]>> {
  const published = await rows<SecretUser & { graph: unknown }>(
    source,
    `SELECT w.id, w.name, w.status, v.graph FROM workflows w JOIN workflow_versions v ON v.id = w.version_id
     WHERE w.archived_at IS NULL AND v.graph::text LIKE '%secrets%' ORDER BY w.id`,
  );
  const users = new Map<string, SecretUser[]>();
  for (const { graph, ...workflow } of published) {
    for (const name of new Set(usesOf(catalogue, graph).map((use) => use.name))) users.set(name, [...(users.get(name) ?? []), workflow]);
  }
  return users;
}
