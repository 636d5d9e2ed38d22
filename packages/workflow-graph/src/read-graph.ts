import type { Json } from '@onward/contracts/json';

/**
 * Reads whatever can be read of a stored or sent graph, and never throws: a graph may be older than this version, or edited by hand in
 * the database. What is not readable (a node without an id, an edge without its ends) is left out, a node without a type is of the unknown
 * type ""; nothing is judged here.
 */

export type ReadNode = { id: string; type: string; name?: string; config: Record<string, Json> };
export type ReadEdge = { id?: string; from: string; port: string; to: string };
export type ReadGraph = { nodes: ReadNode[]; edges: ReadEdge[] };

export function readGraph(input: unknown): ReadGraph {
  if (!isObject(input)) return { nodes: [], edges: [] };
  const nodes = Array.isArray(input.nodes) ? input.nodes.flatMap((node) => readNode(node) ?? []) : [];
  const edges = Array.isArray(input.edges) ? input.edges.flatMap((edge) => readEdge(edge) ?? []) : [];
  return { nodes, edges };
}

export function readNode(input: unknown): ReadNode | null {
  if (!isObject(input) || typeof input.id !== 'string') return null;
  const config = isObject(input.config) ? (input.config as Record<string, Json>) : {};
  const type = typeof input.type === 'string' ? input.type : '';
  return { id: input.id, type, ...(typeof input.name === 'string' ? { name: input.name } : {}), config };
}

export function readEdge(input: unknown): ReadEdge | null {
  if (!isObject(input) || typeof input.from !== 'string' || typeof input.to !== 'string') return null;
  const port = typeof input.port === 'string' ? input.port : 'next';
  return { ...(typeof input.id === 'string' ? { id: input.id } : {}), from: input.from, port, to: input.to };
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
