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

/** The refusal of a graph with defects: every one of them, with its code and the node or edge it is about. */
export function refuseGraph(defects: readonly Defect[], what: string): Problem {
  const named = defects.slice(0, NAMED_IN_DETAIL).map(({ message }) => message);
  const more = defects.length > NAMED_IN_DETAIL ? ` (and ${defects.length - NAMED_IN_DETAIL} more)` : '';
  return new Problem('unprocessable', `${what}: ${named.join('; ')}${more}`, {
    errors: defects.map((defect) => ({ ...defect, path: ['graph', ...(defect.path === undefined ? [] : [defect.path])].join('.') })),
  });
}
