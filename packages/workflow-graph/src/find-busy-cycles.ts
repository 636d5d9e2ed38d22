import { isKnownNodeType, NODE_TYPES } from './graph.js';
import type { ReadNode } from './read-graph.js';

/**
 * Finds loops that never pause: cycles of which no node is a wait (or another type that pauses). One cycle, a short one, is answered for each
 * knot of nodes that reach each other, as node ids in the order a run would take them, beginning with the node that comes first in the graph.
 *
 * Knots are strongly connected components by Tarjan's algorithm (1972), with a stack of its own instead of recursion; linear in nodes and edges.
 */
export function findBusyCycles(nodes: readonly ReadNode[], next: (id: string) => string[]): string[][] {
  const busy = new Set(nodes.filter(({ type }) => !isKnownNodeType(type) || !NODE_TYPES[type].pauses).map(({ id }) => id));
  const ways = new Map([...busy].map((id) => [id, next(id).filter((to) => busy.has(to))]));
  const order = new Map([...busy].map((id, i) => [id, i]));
  const byOrder = (a: string, b: string) => (order.get(a) ?? 0) - (order.get(b) ?? 0);
  return findKnots(ways)
    .map((knot) => knot.sort(byOrder))
    .flatMap((knot) => shortestCycle(knot, ways) ?? [])
    .map((cycle) => cycle.nodes)
    .sort(([a = ''], [b = '']) => byOrder(a, b));
}

type Visit = { id: string; ways: readonly string[]; at: number };

function findKnots(ways: ReadonlyMap<string, readonly string[]>): string[][] {
  const index = new Map<string, number>();
  const low = new Map<string, number>();
  const stack: string[] = [];
  const onStack = new Set<string>();
  const knots: string[][] = [];

  const open = (id: string): Visit => {
    index.set(id, index.size);
    low.set(id, index.size - 1);
    stack.push(id);
    onStack.add(id);
    return { id, ways: ways.get(id) ?? [], at: 0 };
  };
  const lower = (id: string, to: number | undefined) => low.set(id, Math.min(low.get(id) ?? 0, to ?? 0));

  for (const root of ways.keys()) {
    if (index.has(root)) continue;
    const visits = [open(root)];
    for (let visit = visits.at(-1); visit !== undefined; visit = visits.at(-1)) {
      const to = visit.ways[visit.at];
      visit.at += 1;
      if (to !== undefined) {
        if (!index.has(to)) visits.push(open(to));
        else if (onStack.has(to)) lower(visit.id, index.get(to));
        continue;
      }
      visits.pop();
      const parent = visits.at(-1);
      if (parent !== undefined) lower(parent.id, low.get(visit.id));
      if (low.get(visit.id) === index.get(visit.id)) knots.push(closeKnot(visit.id, stack, onStack));
    }
  }
  return knots;
}

function closeKnot(root: string, stack: string[], onStack: Set<string>): string[] {
  const knot: string[] = [];
  for (let id = stack.pop(); id !== undefined; id = stack.pop()) {
    onStack.delete(id);
    knot.push(id);
    if (id === root) break;
  }
  return knot;
}

/** The shortest way from the first node of the knot back to itself; null when there is none. */
function shortestCycle(knot: readonly string[], ways: ReadonlyMap<string, readonly string[]>): { nodes: string[] } | null {
  const [start] = knot;
  if (start === undefined) return null;
  const members = new Set(knot);
  const cameFrom = new Map<string, string>();
  const queue = [start];
  for (const id of queue) {
    for (const to of ways.get(id) ?? []) {
      if (to === start) return { nodes: traceBack(start, id, cameFrom) };
      if (!members.has(to) || cameFrom.has(to)) continue;
      cameFrom.set(to, id);
      queue.push(to);
    }
  }
  return null;
}

function traceBack(start: string, last: string, cameFrom: ReadonlyMap<string, string>): string[] {
  const cycle = [last];
  for (let id = last; id !== start; ) {
    id = cameFrom.get(id) ?? start;
    cycle.push(id);
  }
  return cycle.reverse();
}
