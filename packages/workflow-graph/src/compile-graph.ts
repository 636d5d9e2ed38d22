import { readGraph, type ReadNode } from './read-graph.js';

/**
 * Turns a graph into something a run can be led through: nodes by id, edges by node and port.
 *
 * Takes any value and never throws, because a defective graph placed directly in the database must still open and be led through as far
 * as it goes. Of nodes with one id, of several triggers and of edges out of one port the first counts; an edge from or to a
 * node that is not there does not count. Publishing refuses all of these (validate-graph.ts).
 */

export type CompiledNode = ReadNode;
export type Way = { port: string; to: string };

export type CompiledGraph = {
  /** The id of the trigger; undefined when there is none. */
  trigger: string | undefined;
  /** Every node once, in the order of the graph. */
  nodes: readonly CompiledNode[];
  node(id: string): CompiledNode | undefined;
  /** The id of the node to which this port leads. */
  edgeFrom(id: string, port: string): string | undefined;
  /** The first edge out of the node, in the order of the graph. */
  firstEdgeFrom(id: string): Way | undefined;
};

export function compileGraph(graph: unknown): CompiledGraph {
  const read = readGraph(graph);
  const nodes = new Map<string, CompiledNode>();
  for (const node of read.nodes) if (!nodes.has(node.id)) nodes.set(node.id, node);

  const ways = new Map<string, Map<string, string>>();
  for (const { from, port, to } of read.edges) {
    if (!nodes.has(from) || !nodes.has(to)) continue;
    const out = ways.get(from) ?? new Map<string, string>();
    if (!out.has(port)) out.set(port, to);
    ways.set(from, out);
  }

  return {
    trigger: read.nodes.find((node) => node.type === 'trigger')?.id,
    nodes: [...nodes.values()],
    node: (id) => nodes.get(id),
    edgeFrom: (id, port) => ways.get(id)?.get(port),
    firstEdgeFrom: (id) => {
      const first = ways.get(id)?.entries().next();
      return first === undefined || first.done ? undefined : { port: first.value[0], to: first.value[1] };
    },
  };
}
