import type { z } from 'zod';
import type { Defect } from './defect.js';
import { type Graph, graphSchema, MAX_EDGES, MAX_NODES } from './graph.js';
import { flattenIssues } from './flatten-issues.js';
import { derivedEdgeId } from './name-edges.js';
import { readEdge } from './read-graph.js';

/**
 * Is this a graph at all? Answers it with its defaults filled in, or every defect of its shape, naming the node or edge where that can be
 * read. Never throws for JSON of any depth and size: what is too large is refused before it is looked into.
 */

const MAX_DEPTH = 32;
const MAX_VALUES = 500_000;

export type CheckedShape =
  | { graph: Graph; defects: [] }
  /** `readable`: small enough that its readable nodes and edges can be looked at for more defects. */
  | { graph: null; defects: Defect[]; readable: boolean };

export function checkShape(input: unknown): CheckedShape {
  if (!isWithinBounds(input)) {
    return refused([{ code: 'too_large', message: `A graph may be nested ${MAX_DEPTH} levels deep and hold ${MAX_VALUES} values` }], false);
  }
  const tooMany = checkCounts(input);
  if (tooMany.length > 0) return refused(tooMany, false);
  const parsed = graphSchema.safeParse(input);
  if (parsed.success) return { graph: parsed.data, defects: [] };
  return refused(
    flattenIssues(parsed.error.issues).map((issue) => shapeDefect(input, issue)),
    true,
  );
}

function refused(defects: Defect[], readable: boolean): CheckedShape {
  return { graph: null, defects, readable };
}

/** Walks without recursion, so that depth costs no stack; a cycle shows as depth. */
function isWithinBounds(input: unknown): boolean {
  let values = 0;
  const open: { value: unknown; depth: number }[] = [{ value: input, depth: 1 }];
  for (let next = open.pop(); next !== undefined; next = open.pop()) {
    const { value, depth } = next;
    if (++values > MAX_VALUES || depth > MAX_DEPTH) return false;
    if (typeof value === 'object' && value !== null) for (const member of Object.values(value)) open.push({ value: member, depth: depth + 1 });
  }
  return true;
}

function checkCounts(input: unknown): Defect[] {
  const nodes = lengthOf(input, 'nodes');
  const edges = lengthOf(input, 'edges');
  const defects: Defect[] = [];
  if (nodes > MAX_NODES) defects.push({ code: 'too_many_nodes', message: `A graph may have ${MAX_NODES} nodes; this one has ${nodes}`, path: 'nodes' });
  if (edges > MAX_EDGES) defects.push({ code: 'too_many_edges', message: `A graph may have ${MAX_EDGES} edges; this one has ${edges}`, path: 'edges' });
  return defects;
}

function lengthOf(input: unknown, key: 'nodes' | 'edges'): number {
  const list = field(input, key);
  return Array.isArray(list) ? list.length : 0;
}

function shapeDefect(input: unknown, { path, message }: Pick<z.core.$ZodIssue, 'path' | 'message'>): Defect {
  const defect: Defect = { code: 'shape', message: path.length > 0 ? `${path.join('.')}: ${message}` : message };
  if (path.length > 0) defect.path = path.join('.');
  const [list, index] = path;
  if (index === undefined) return defect;
  const item = field(field(input, String(list)), String(index));
  const id = field(item, 'id');
  if (list === 'nodes' && typeof id === 'string') defect.node = id;
  if (list === 'edges') {
    const edge = readEdge(item);
    if (edge !== null) defect.edge = edge.id ?? derivedEdgeId(edge);
    else if (typeof id === 'string') defect.edge = id;
  }
  return defect;
}

function field(value: unknown, key: string): unknown {
  return typeof value === 'object' && value !== null && Object.hasOwn(value, key) ? (value as Record<string, unknown>)[key] : undefined;
}
