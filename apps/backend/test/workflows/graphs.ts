/** Graphs for tests, in the notation of the API. */
type Node = { id: string; type: string; config?: Record<string, unknown> };
type Edge = { id?: string; from: string; port?: string; to: string };
export type TestGraph = { nodes: Node[]; edges: Edge[] };

export const trigger: Node = { id: 'start', type: 'trigger', config: { type: 'event', event: 'order.paid' } };
export const tag = (id: string): Node => ({ id, type: 'action', config: { action: 'ADD_TAG', with: { tag: 'vip' } } });
export const end: Node = { id: 'finish', type: 'end' };
export const edge = (from: string, to: string, port = 'next'): Edge => ({ from, port, to });

/** start → a → finish. */
export function goodGraph(): TestGraph {
  return { nodes: [trigger, tag('a'), end], edges: [edge('start', 'a'), edge('a', 'finish')] };
}

/** Shapes that are refused even as a draft: what they are called, the graph, and the code and place of each defect. */
export const BAD_SHAPES: [name: string, graph: TestGraph, defects: { code: string; node?: string; edge?: string }[]][] = [
  [
    'dangling-target',
    { nodes: [trigger, tag('a'), end], edges: [edge('start', 'a'), { ...edge('a', 'ghost', 'failed'), id: 'e1' }, edge('a', 'finish')] },
    [{ code: 'edge_to_missing', edge: 'e1' }],
  ],
  [
    'dangling-source',
    { nodes: [trigger, end], edges: [edge('start', 'finish'), { ...edge('ghost', 'finish'), id: 'e1' }] },
    [{ code: 'edge_from_missing', edge: 'e1' }],
  ],
  ['duplicate-ids', { nodes: [trigger, tag('a'), tag('a'), end], edges: [edge('start', 'a'), edge('a', 'finish')] }, [{ code: 'duplicate_node', node: 'a' }]],
  [
    'edge-into-trigger',
    { nodes: [trigger, tag('a'), end], edges: [edge('start', 'a'), edge('a', 'finish'), { ...edge('a', 'start', 'failed'), id: 'e1' }] },
    [{ code: 'edge_into_trigger', edge: 'e1' }],
  ],
  [
    'several at once',
    {
      nodes: [trigger, tag('a'), tag('a'), end],
      edges: [edge('start', 'a'), { ...edge('a', 'ghost'), id: 'e1' }, { ...edge('ghost', 'finish'), id: 'e2' }, { ...edge('a', 'start'), id: 'e3' }],
    },
    [
      { code: 'duplicate_node', node: 'a' },
      { code: 'edge_to_missing', edge: 'e1' },
      { code: 'edge_from_missing', edge: 'e2' },
      { code: 'edge_into_trigger', edge: 'e3' },
    ],
  ],
];

/** Shapes that are saved as a draft and listed as its problems, and refused when published. */
export const UNFINISHED: [name: string, graph: TestGraph, defects: { code: string; node?: string; edge?: string; port?: string }[]][] = [
  ['no-trigger', { nodes: [tag('a'), end], edges: [edge('a', 'finish')] }, [{ code: 'no_trigger' }]],
  [
    'unknown-output',
    { nodes: [trigger, tag('a'), end], edges: [edge('start', 'a'), edge('a', 'finish'), { ...edge('a', 'finish', 'sideways'), id: 'e1' }] },
    [{ code: 'unknown_port', edge: 'e1' }],
  ],
  [
    'unknown type',
    { nodes: [trigger, { id: 'fax', type: 'SEND_FAX' }, end], edges: [edge('start', 'fax'), edge('fax', 'finish')] },
    [{ code: 'unknown_node_type', node: 'fax' }],
  ],
  [
    'F22: two edges out of one port',
    { nodes: [trigger, tag('a'), tag('b'), end], edges: [edge('start', 'a'), edge('start', 'b'), edge('a', 'finish'), edge('b', 'finish')] },
    [{ code: 'two_edges_from_port', node: 'start', port: 'next' }],
  ],
];
