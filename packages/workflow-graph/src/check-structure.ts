import { type Defect, listSome } from './defect.js';
import { findBusyCycles } from './find-busy-cycles.js';
import { isKnownNodeType, NODE_TYPES, portsOf } from './graph.js';
import type { Named } from './name-edges.js';
import type { ReadEdge, ReadNode } from './read-graph.js';

/**
 * How nodes and edges stand to each other; no config is looked into. Linear in nodes and edges: nothing walks paths, of which a graph with
 * branches that rejoin has exponentially many.
 */

type Edges = readonly Named<ReadEdge>[];

/** What refuses even a draft: ids that do not say which node is meant, edges that hang, edges into the trigger. */
export function checkReferences(nodes: readonly ReadNode[], edges: Edges): Defect[] {
  const types = new Map<string, string>();
  const defects: Defect[] = [];
  for (const { id, type } of nodes) {
    if (types.has(id)) defects.push({ code: 'duplicate_node', message: `The node id "${id}" is used more than once`, node: id });
    else types.set(id, type);
  }
  const edgeIds = new Set<string>();
  for (const { id, from, to } of edges) {
    if (edgeIds.has(id)) defects.push({ code: 'duplicate_edge', message: `The edge id "${id}" is used more than once`, edge: id });
    edgeIds.add(id);
    if (!types.has(from)) defects.push({ code: 'edge_from_missing', message: `Edge "${id}" comes from the node "${from}", which does not exist`, edge: id });
    if (!types.has(to)) defects.push({ code: 'edge_to_missing', message: `Edge "${id}" leads to the node "${to}", which does not exist`, edge: id });
    if (types.get(to) === 'trigger') {
      defects.push({ code: 'edge_into_trigger', message: `Edge "${id}" leads into the trigger, where a run can only begin`, edge: id, node: to });
    }
  }
  return defects;
}

/** What refuses publishing: triggers, ports, nodes nobody reaches, loops that never pause. Of nodes with one id the first counts. */
export function checkWays(nodes: readonly ReadNode[], edges: Edges): Defect[] {
  const unique = [...new Map(nodes.toReversed().map((node) => [node.id, node])).values()].toReversed();
  const out = new Map<string, Named<ReadEdge>[]>(unique.map(({ id }) => [id, []]));
  for (const edge of edges) out.get(edge.from)?.push(edge);
  const next = (id: string): string[] => (out.get(id) ?? []).flatMap(({ to }) => (out.has(to) ? [to] : []));
  return [
    ...checkTriggers(unique),
    ...unique.flatMap((node) => checkPorts(node, out.get(node.id) ?? [])),
    ...checkReach(unique, next),
    ...findBusyCycles(unique, next).map(
      (cycle): Defect => ({
        code: 'cycle_without_wait',
        message: `A loop needs a wait in it: ${listSome([...cycle, ...cycle.slice(0, 1)], ' → ')}`,
        ...(cycle[0] === undefined ? {} : { node: cycle[0] }),
        nodes: cycle,
      }),
    ),
  ];
}

function checkTriggers(nodes: readonly ReadNode[]): Defect[] {
  const [first, ...more] = nodes.filter(({ type }) => type === 'trigger');
  if (first === undefined) return [{ code: 'no_trigger', message: 'There is no trigger' }];
  return more.map(({ id }) => ({ code: 'several_triggers', message: `"${id}" is a second trigger beside "${first.id}"; a workflow has one`, node: id }));
}

function checkPorts({ id, type }: ReadNode, edges: Edges): Defect[] {
  const byPort = new Map<string, Named<ReadEdge>[]>();
  for (const edge of edges) {
    const leaving = byPort.get(edge.port);
    if (leaving === undefined) byPort.set(edge.port, [edge]);
    else leaving.push(edge);
  }
  const known = portsOf(type);
  const defects: Defect[] = [];
  for (const [port, leaving] of byPort) {
    if (type === 'end') {
      for (const edge of leaving) defects.push({ code: 'edge_out_of_end', message: `Edge "${edge.id}" leaves the end "${id}"`, node: id, edge: edge.id });
      continue;
    }
    if (known !== null && !known.includes(port)) {
      const message = `Node "${id}" of the type "${type}" has no port "${port}"; it has ${known.join(' and ')}`;
      for (const edge of leaving) defects.push({ code: 'unknown_port', message, node: id, edge: edge.id, port });
    }
    const [, second] = leaving;
    if (second !== undefined) {
      const message = `Port "${port}" of "${id}" has ${leaving.length} edges and may have one: ${listSome(leaving.map((edge) => edge.id))}`;
      defects.push({ code: 'two_edges_from_port', message, node: id, edge: second.id, port });
    }
  }
  for (const port of isKnownNodeType(type) ? NODE_TYPES[type].requiredPorts : []) {
    if (!byPort.has(port)) defects.push({ code: 'port_without_edge', message: `Port "${port}" of "${id}" leads nowhere`, node: id, port });
  }
  return defects;
}

/** Without a trigger nothing is reached, and that is told once. */
function checkReach(nodes: readonly ReadNode[], next: (id: string) => string[]): Defect[] {
  const open = nodes.filter(({ type }) => type === 'trigger').map(({ id }) => id);
  if (open.length === 0) return [];
  const reached = new Set(open);
  for (let id = open.pop(); id !== undefined; id = open.pop()) {
    for (const to of next(id)) {
      if (reached.has(to)) continue;
      reached.add(to);
      open.push(to);
    }
  }
  return nodes.filter(({ id }) => !reached.has(id)).map(({ id }) => ({ code: 'unreachable', message: `No way from the trigger leads to "${id}"`, node: id }));
}
