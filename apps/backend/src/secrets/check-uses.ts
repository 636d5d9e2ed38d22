import type { Defect } from '@onward/workflow-graph/validate-graph';
import type { ActionCatalogue } from '../actions/action-catalogue.js';
import { rows, type Tx } from '../database/sql.js';
import { usesOf } from './find-uses.js';

/**
 * What hinders publishing a graph: secrets that do not exist, and such as may not go where their request goes. A secret that is found cannot be
 * deleted before the caller commits.
 */
export async function checkUses(tx: Tx, catalogue: ActionCatalogue, graph: unknown): Promise<Defect[]> {
  const uses = usesOf(catalogue, graph);
  if (uses.length === 0) return [];
  const found = await rows<{ name: string; allowedOrigins: string[] }>(
    tx,
    `SELECT name, allowed_origins AS "allowedOrigins" FROM secrets WHERE name = ANY ($1) ORDER BY name FOR KEY SHARE`,
    [uses.map(({ name }) => name)],
  );
  return uses.flatMap(({ node, path, name, origin }): Defect[] => {
    const secret = found.find((one) => one.name === name);
    const refuse = (why: string): Defect[] => [{ code: 'config_invalid', node, path, message: `"${node}": ${path}: ${why}` }];
    if (!secret) return refuse(`there is no secret "${name}"`);
    return secret.allowedOrigins.includes(origin) ? [] : refuse(`the secret "${name}" may not go to ${origin}`);
  });
}
