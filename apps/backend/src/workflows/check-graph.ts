import type { ActionCatalogue as ActionRules, Defect, Validation } from '@onward/workflow-graph/validate-graph';
import { validateGraph } from '@onward/workflow-graph/validate-graph';
import type { ActionCatalogue } from '../actions/action-catalogue.js';
import { Problem } from '../http/problem.js';

/** So many defects are named in the answer's sentence; all of them stand in its list. */
const NAMED_IN_DETAIL = 3;

/** Judges a graph against the actions this process knows: `draft`, may it be saved; `publish`, may it run. Never throws. */
export function checkGraph(catalogue: ActionCatalogue, graph: unknown, purpose: 'draft' | 'publish'): Validation {
  const actions: ActionRules = {};
  for (const [type, { config, needsContact }] of catalogue.all()) actions[type] = { config, needsContact };
  return validateGraph(graph, { actions, purpose });
}

/** The refusal of a graph with defects: every one of them, with its code, the node or edge it is about, and the path of the field from the request. */
export function refuseGraph(graph: unknown, defects: readonly Defect[], what: string): Problem {
  const named = defects.slice(0, NAMED_IN_DETAIL).map(({ message }) => message);
  const more = defects.length > NAMED_IN_DETAIL ? ` (and ${defects.length - NAMED_IN_DETAIL} more)` : '';
  const places = placesOf(graph);
  const pathOf = ({ code, node, path }: Defect): string => {
    const place = code === 'shape' || node === undefined ? undefined : places.get(node);
    return ['graph', ...(place === undefined ? [] : [`nodes.${place}`]), ...(path === undefined ? [] : [path])].join('.');
  };
  return new Problem('unprocessable', `${what}: ${named.join('; ')}${more}`, { errors: defects.map((defect) => ({ ...defect, path: pathOf(defect) })) });
}

/** Where each node stands in the list, by its id; of a graph that may be anything. */
function placesOf(graph: unknown): Map<string, number> {
  const places = new Map<string, number>();
  const nodes: unknown = typeof graph === 'object' && graph !== null && 'nodes' in graph ? graph.nodes : [];
  if (!Array.isArray(nodes)) return places;
  nodes.forEach((node: unknown, index) => {
    if (typeof node === 'object' && node !== null && 'id' in node && typeof node.id === 'string') places.set(node.id, index);
  });
  return places;
}
