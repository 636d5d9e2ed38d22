import { type ActionCatalogue, checkConfig, warnOfMissingContact } from './check-configs.js';
import { checkShape } from './check-shape.js';
import { checkReferences, checkWays } from './check-structure.js';
import type { Defect } from './defect.js';
import type { Graph } from './graph.js';
import { nameEdges } from './name-edges.js';
import { readGraph } from './read-graph.js';

export type { ActionCatalogue, ActionRules } from './check-configs.js';
export { type Defect, type DefectCode, DEFECTS } from './defect.js';

/**
 * Judges a graph: every defect in one answer, each with a code and the node or edge it is about.
 *
 * For `draft` only what makes it unfit to be saved is looked for; for `publish` also what makes it unfit to run, and warnings that hinder
 * nothing. Takes any JSON value and never throws (it is data as JSON.parse gives it: no getters, no proxies). Linear in the size
 * of the graph. Asking again with the answered graph gives the same answer.
 *
 * Not judged: whether what a config names (a template, a list) exists; whoever owns those asks for them.
 */

export type ValidateOptions = {
  /** The known actions; `config` is the schema of the action's `with`. */
  actions: ActionCatalogue;
  purpose: 'draft' | 'publish';
};

export type Validation = {
  /** The graph with its defaults, every edge with an id; null when it is not a graph. It may have defects all the same. */
  graph: Graph | null;
  defects: Defect[];
  warnings: Defect[];
};

export function validateGraph(input: unknown, { actions, purpose }: ValidateOptions): Validation {
  const shape = checkShape(input);
  if (shape.graph === null) {
    const { nodes, edges } = shape.readable ? readGraph(input) : { nodes: [], edges: [] };
    return { graph: null, defects: [...shape.defects, ...checkReferences(nodes, nameEdges(edges))], warnings: [] };
  }
  const { nodes } = shape.graph;
  const edges = nameEdges(shape.graph.edges);
  const graph = { nodes, edges };
  const defects = checkReferences(nodes, edges);
  if (purpose === 'draft') return { graph, defects, warnings: [] };
  return {
    graph,
    defects: [...defects, ...checkWays(nodes, edges), ...nodes.flatMap((node) => checkConfig(node, actions))],
    warnings: warnOfMissingContact(nodes, actions),
  };
}
