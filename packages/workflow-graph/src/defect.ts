/**
 * What can be wrong with a graph: code → when it is refused. `draft`: not even saved; `publish`: saved and listed, never published;
 * `warning`: published all the same. Codes are part of the HTTP API and never change their meaning.
 */
export const DEFECTS = {
  /** Not a graph: a field is missing, of the wrong kind, or not known. */
  shape: 'draft',
  /** Nested deeper, or of more values, than a graph may be. */
  too_large: 'draft',
  too_many_nodes: 'draft',
  too_many_edges: 'draft',
  duplicate_node: 'draft',
  duplicate_edge: 'draft',
  edge_from_missing: 'draft',
  edge_to_missing: 'draft',
  edge_into_trigger: 'draft',
  no_trigger: 'publish',
  several_triggers: 'publish',
  unknown_node_type: 'publish',
  unknown_trigger_type: 'publish',
  unknown_action: 'publish',
  unknown_port: 'publish',
  two_edges_from_port: 'publish',
  /** A port that must be drawn is not. */
  port_without_edge: 'publish',
  edge_out_of_end: 'publish',
  unreachable: 'publish',
  cycle_without_wait: 'publish',
  config_invalid: 'publish',
  wait_invalid: 'publish',
  zone_unknown: 'publish',
  field_path_invalid: 'publish',
  operand_empty: 'publish',
  needs_contact: 'warning',
} as const satisfies Record<string, 'draft' | 'publish' | 'warning'>;
export type DefectCode = keyof typeof DEFECTS;

/**
 * One defect. `path` is the field: from the node for a defect of its config (`config.tests.0.field`), else from the graph (`nodes.3.id`).
 * `nodes` are the nodes of a cycle, in its order.
 */
export type Defect = { code: DefectCode; message: string; node?: string; edge?: string; port?: string; path?: string; nodes?: string[] };

export function isDefectCode(code: unknown): code is DefectCode {
  return typeof code === 'string' && Object.hasOwn(DEFECTS, code);
}

/** Names the first of many, for a message that people read. */
export function listSome(names: readonly string[], separator = ', '): string {
  const shown = names.slice(0, 20).join(separator);
  return names.length > 20 ? `${shown}${separator}… (${names.length - 20} more)` : shown;
}
