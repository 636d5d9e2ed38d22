import type { ReadEdge } from './read-graph.js';

/**
 * Gives every edge without an id a derived one, "from:port->to", so that a defect can name it. It stays the same as long as the edge
 * does; of several edges alike the later ones get "#2", "#3", …, and an id in use is never given again.
 */
export type Named<E> = E & { id: string };

export function derivedEdgeId({ from, port, to }: Pick<ReadEdge, 'from' | 'port' | 'to'>): string {
  return `${from}:${port}->${to}`;
}

export function nameEdges<E extends ReadEdge>(edges: readonly E[]): Named<E>[] {
  const taken = new Set(edges.flatMap((edge) => edge.id ?? []));
  const counts = new Map<string, number>();
  return edges.map((edge) => {
    if (edge.id !== undefined) return { ...edge, id: edge.id };
    const derived = derivedEdgeId(edge);
    let count = counts.get(derived) ?? 0;
    let id = derived;
    do {
      count += 1;
      id = count === 1 ? derived : `${derived}#${count}`;
    } while (taken.has(id));
    counts.set(derived, count);
    taken.add(id);
    return { ...edge, id };
  });
}
