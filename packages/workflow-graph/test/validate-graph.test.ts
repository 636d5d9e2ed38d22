import type { Json } from '@onward/contracts/json';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { DEFECTS, type Defect, validateGraph } from '../src/validate-graph.js';
import { action, actions, around, codes, condition, edges, end, publish, readFixture, type Sketch, saveDraft, trigger, validGraph, wait } from './graphs.js';

const shapes = readFixture('f18-f19-bad-shapes.json') as Record<string, Sketch>;
const ladder = readFixture('f21-diamond-ladder-25.json') as Sketch;
const of = (defects: Defect[], code: string) => defects.filter((defect) => defect.code === code);

describe('F18: self loop and loops without a pause', () => {
  test('F18: a self loop is refused at publish with its node', () => {
    expect(of(publish(shapes['self-loop']).defects, 'cycle_without_wait')).toMatchObject([
      { node: 'a', nodes: ['a'], message: expect.stringContaining('a → a') },
    ]);
  });
  test('F18: a loop of two nodes is refused at publish with both', () => {
    expect(publish(shapes['two-node-loop']).defects).toMatchObject([
      { code: 'cycle_without_wait', nodes: ['a', 'b'], message: expect.stringContaining('a → b → a') },
    ]);
  });
  test('F18: a loop through a wait is allowed', () => {
    const drawn = shapes['loop-through-wait'];
    expect(publish(drawn).defects).toMatchObject([{ code: 'port_without_edge', node: 'c', port: 'true' }]);
    expect(publish({ nodes: [...(drawn?.nodes ?? []), end], edges: [...(drawn?.edges ?? []), ...edges('c.true -> end')] }).defects).toEqual([]);
  });
  test('F18: all of them are drafts that can be saved', () => {
    for (const name of ['self-loop', 'two-node-loop', 'loop-through-wait']) expect(saveDraft(shapes[name]).defects).toEqual([]);
  });
  test('a loop by way of a failed port counts, and every knot of loops is named once', () => {
    const nodes = [trigger, action('a'), action('b'), action('c'), action('d'), end];
    const { defects } = publish({ nodes, edges: edges('trigger -> a', 'a -> b', 'a.failed -> a', 'b -> c', 'c -> d', 'd -> end', 'd.failed -> c') });
    expect(defects.map(({ code, nodes: cycle }) => [code, cycle])).toEqual([
      ['cycle_without_wait', ['a']],
      ['cycle_without_wait', ['c', 'd']],
    ]);
  });
});

describe('F19: structural defects in an imported graph', () => {
  test.each([
    ['dangling-target', [{ code: 'edge_to_missing', edge: 'a:next->ghost' }]],
    ['dangling-source', [{ code: 'edge_from_missing', edge: 'ghost:next->end' }]],
    ['duplicate-ids', [{ code: 'duplicate_node', node: 'a' }]],
    ['edge-into-trigger', [{ code: 'edge_into_trigger', edge: 'a:next->trigger', node: 'trigger' }]],
  ])('F19: %s is refused even as a draft, naming what is wrong', (name, expected) => {
    expect(saveDraft(shapes[name]).defects).toMatchObject(expected);
  });

  test('F19: no trigger and an unknown port are problems of a draft, refused at publish', () => {
    expect(saveDraft(shapes['no-trigger']).defects).toEqual([]);
    expect(publish(shapes['no-trigger']).defects).toMatchObject([{ code: 'no_trigger' }]);
    expect(saveDraft(shapes['unknown-output']).defects).toEqual([]);
    expect(of(publish(shapes['unknown-output']).defects, 'unknown_port')).toMatchObject([{ node: 'c', edge: 'c:maybe->end', port: 'maybe' }]);
  });

  test('F19: every defect of a graph comes in one answer', () => {
    const nodes = [trigger, action('a'), action('a'), condition('c', { field: 'a..b', op: 'exists' }), wait('w', 'abc'), { id: 'x', type: 'SEND_FAX' }, end];
    const drawn = edges('trigger -> a', 'a -> ghost', 'ghost -> end', 'a -> c', 'c.maybe -> end', 'a -> trigger', 'end -> w', 'w -> x');
    const { graph, defects } = publish({ nodes, edges: drawn });
    expect(new Set(codes({ graph, defects, warnings: [] }))).toEqual(
      new Set([
        'duplicate_node',
        'edge_to_missing',
        'edge_from_missing',
        'edge_into_trigger',
        'two_edges_from_port',
        'unknown_port',
        'port_without_edge',
        'edge_out_of_end',
        'cycle_without_wait',
        'unknown_node_type',
        'wait_invalid',
        'field_path_invalid',
      ]),
    );
    expect(defects.every(({ node, edge }) => node !== undefined || edge !== undefined)).toBe(true);
    expect(saveDraft({ nodes, edges: drawn }).defects.every(({ code }) => DEFECTS[code] === 'draft')).toBe(true);
  });

  test('F19: defects of shape and of structure come together', () => {
    const { graph, defects } = saveDraft({ nodes: [trigger, { ...action('a'), colour: 'red' }, { id: 'B', type: 'end' }], edges: edges('trigger -> ghost') });
    expect(graph).toBeNull();
    expect(defects).toMatchObject([
      { code: 'shape', node: 'a', path: 'nodes.1.colour' },
      { code: 'shape', node: 'B', path: 'nodes.2.id' },
      { code: 'edge_to_missing', edge: 'trigger:next->ghost' },
    ]);
  });
});

test('F20: an unknown node type is refused at publish, naming the node, and is still a draft', () => {
  const graph = around({ id: 'fax', type: 'SEND_FAX' });
  expect(publish(graph).defects).toMatchObject([{ code: 'unknown_node_type', node: 'fax' }]);
  expect(saveDraft(graph).defects).toEqual([]);
});

test('F21: a ladder of 25 diamonds, with 2^25 paths, is judged at once', () => {
  expect(ladder.nodes).toHaveLength(102);
  expect(publish(ladder).defects).toEqual([]);
});

describe('F22: two edges out of one output, one node with two parents', () => {
  test('F22: two edges out of one port are refused, naming the port and both edges', () => {
    const graph = { nodes: [trigger, action('a'), action('b'), action('c'), end], edges: edges('trigger -> a', 'a -> b', 'a -> c', 'b -> end', 'c -> end') };
    expect(publish(graph).defects).toMatchObject([
      { code: 'two_edges_from_port', node: 'a', port: 'next', edge: 'a:next->c', message: expect.stringContaining('a:next->b, a:next->c') },
    ]);
    expect(saveDraft(graph).defects).toEqual([]);
  });
  test('F22: several edges into one node are fine', () => {
    expect(publish(around(condition('c', { field: 'a', op: 'exists' }), 'true', 'false')).defects).toEqual([]);
  });
});

describe('what publishing refuses', () => {
  const refused: [string, Sketch, Partial<Defect>[]][] = [
    [
      'a second trigger',
      { nodes: [trigger, { ...trigger, id: 'other' }, end], edges: edges('trigger -> end', 'other -> end') },
      [{ code: 'several_triggers', node: 'other' }],
    ],
    ['a node that nothing leads to', { nodes: [trigger, action('a'), end], edges: edges('trigger -> end', 'a -> end') }, [{ code: 'unreachable', node: 'a' }]],
    [
      'a condition without its false edge',
      around(condition('c', { field: 'a', op: 'exists' }), 'true'),
      [{ code: 'port_without_edge', node: 'c', port: 'false' }],
    ],
    ['an action that leads nowhere', { nodes: [trigger, action('a')], edges: edges('trigger -> a') }, [{ code: 'port_without_edge', node: 'a', port: 'next' }]],
    [
      'an action of which only the failed port is drawn',
      { nodes: [trigger, action('a'), end], edges: edges('trigger -> a', 'a.failed -> end') },
      [{ code: 'port_without_edge', node: 'a', port: 'next' }],
    ],
    ['a trigger that leads nowhere', { nodes: [trigger], edges: [] }, [{ code: 'port_without_edge', node: 'trigger', port: 'next' }]],
    [
      'an edge out of an end',
      { nodes: [trigger, end, { ...end, id: 'end2' }], edges: edges('trigger -> end', 'end -> end2') },
      [{ code: 'edge_out_of_end', node: 'end', edge: 'end:next->end2' }],
    ],
    ['an unknown action', around(action('a', { action: 'constructor' })), [{ code: 'unknown_action', node: 'a', path: 'config.action' }]],
    [
      'an action whose own fields are wrong',
      around(action('a', { with: { tag: '', x: 1 } })),
      [
        { code: 'config_invalid', node: 'a', path: 'config.with.tag' },
        { code: 'config_invalid', node: 'a', path: 'config.with.x' },
      ],
    ],
    ['an action without its fields', around(action('a', { with: null })), [{ code: 'config_invalid', node: 'a', path: 'config.with' }]],
    ['an unknown policy', around(action('a', { uncertain: 'maybe' })), [{ code: 'config_invalid', node: 'a', path: 'config.uncertain' }]],
    [
      'an end that is configured',
      { nodes: [trigger, { ...end, config: { x: 1 } }], edges: edges('trigger -> end') },
      [{ code: 'config_invalid', node: 'end', path: 'config.x' }],
    ],
    [
      'an unknown operator',
      around(condition('c', { field: 'a', op: 'matches', value: 'x' }), 'true', 'false'),
      [{ code: 'config_invalid', node: 'c', path: 'config.tests.0.op' }],
    ],
    ['a condition without a test', around(condition('c'), 'true', 'false'), [{ code: 'config_invalid', node: 'c', path: 'config.tests' }]],
  ];
  test.each(refused)('%s is refused at publish and saved as a draft', (_, graph, expected) => {
    expect(publish(graph).defects).toHaveLength(expected.length);
    expect(publish(graph).defects).toMatchObject(expected);
    expect(saveDraft(graph).defects).toEqual([]);
  });

  const started = (config: Record<string, Json>): Sketch => ({ nodes: [{ ...trigger, config }, end], edges: edges('trigger -> end') });
  test('a trigger of an unknown kind, or one whose event or filter is wrong', () => {
    expect(publish(started({ type: 'telepathy' })).defects).toMatchObject([{ code: 'unknown_trigger_type', node: 'trigger', path: 'config.type' }]);
    expect(publish(started({})).defects).toMatchObject([{ code: 'config_invalid', node: 'trigger', path: 'config.type' }]);
    expect(publish(started({ type: 'event', event: '1' })).defects).toMatchObject([{ code: 'config_invalid', path: 'config.event' }]);
    const filter = { tests: [{ field: 'payload.total', op: 'contains', value: '' }] };
    expect(publish(started({ type: 'event', event: 'order.paid', filter })).defects).toMatchObject([
      { code: 'operand_empty', path: 'config.filter.tests.0.value' },
    ]);
    expect(publish(started({ type: 'event', event: 'order.paid', filter: { tests: [{ field: 'payload.total', op: 'exists' }] } })).defects).toEqual([]);
  });
});

describe('warnings', () => {
  const byEvent: Sketch = {
    nodes: [
      { ...trigger, config: { type: 'event', event: 'order.paid' } },
      action('a'),
      action('b', { action: 'FORWARD_REQUEST', with: { url: 'https://api.example.test' } }),
      end,
    ],
    edges: edges('trigger -> a', 'a -> b', 'b -> end'),
  };
  test('an action that needs a contact warns when an event starts it, and hinders nothing', () => {
    const { defects, warnings } = publish(byEvent);
    expect(defects).toEqual([]);
    expect(warnings).toMatchObject([{ code: 'needs_contact', node: 'a' }]);
  });
  test('a manual start warns of nothing', () => {
    expect(publish(around(action('a'))).warnings).toEqual([]);
  });
});

describe('edge ids', () => {
  test('an edge without an id gets one derived from its ends, others keep theirs', () => {
    const { graph } = publish({
      nodes: [trigger, action('a'), end],
      edges: [
        { from: 'trigger', to: 'a' },
        { id: 'e2', from: 'a', to: 'end' },
      ],
    });
    expect(graph?.edges).toEqual([
      { id: 'trigger:next->a', from: 'trigger', port: 'next', to: 'a' },
      { id: 'e2', from: 'a', port: 'next', to: 'end' },
    ]);
  });
  test('edges alike get ids of their own, and an id given twice is refused', () => {
    const twice = { from: 'trigger', to: 'end' };
    const { graph } = saveDraft({ nodes: [trigger, end], edges: [twice, twice, { ...twice, id: 'trigger:next->end#2' }] });
    expect(graph?.edges.map(({ id }) => id)).toEqual(['trigger:next->end', 'trigger:next->end#3', 'trigger:next->end#2']);
    expect(
      saveDraft({
        nodes: [trigger, end],
        edges: [
          { ...twice, id: 'e' },
          { ...twice, id: 'e' },
        ],
      }).defects,
    ).toMatchObject([{ code: 'duplicate_edge', edge: 'e' }]);
  });
});

describe('limits', () => {
  const chain = (count: number): Sketch => ({
    nodes: [trigger, ...Array.from({ length: count - 2 }, (_, i) => action(`n${i}`)), end],
    edges: Array.from({ length: count - 1 }, (_, i) => ({ from: i === 0 ? 'trigger' : `n${i - 1}`, to: i === count - 2 ? 'end' : `n${i}` })),
  });

  test('a graph of 1,000 nodes is judged, one of 1,001 refused', () => {
    expect(publish(chain(1_000)).defects).toEqual([]);
    expect(saveDraft(chain(1_001)).defects).toMatchObject([{ code: 'too_many_nodes' }]);
  });

  test('4,000 edges are judged, 4,001 refused', () => {
    const dense = (count: number) => ({
      nodes: chain(1_000).nodes,
      edges: Array.from({ length: count }, (_, i) => ({ from: `n${i % 998}`, port: `p${i}`, to: `n${(i * 7) % 998}` })),
    });
    expect(saveDraft(dense(4_000)).defects).toEqual([]);
    expect(of(publish(dense(4_000)).defects, 'unknown_port')).toHaveLength(4_000);
    expect(saveDraft(dense(4_001)).defects).toMatchObject([{ code: 'too_many_edges' }]);
  });

  test('a loop through all of 1,000 nodes is found', () => {
    const { nodes, edges: drawn } = chain(1_000);
    const { defects } = publish({ nodes, edges: [...drawn, ...edges('n997.failed -> n0')] });
    expect(defects).toMatchObject([{ code: 'cycle_without_wait', node: 'n0' }]);
    expect(defects[0]?.nodes).toHaveLength(998);
    expect(defects[0]?.message.length).toBeLessThan(400);
  });

  test('JSON nested 100,000 deep, a ring, and a million values are refused, not thrown at', () => {
    let deep: unknown = 1;
    for (let i = 0; i < 100_000; i++) deep = { config: [deep] };
    const ring: Record<string, unknown> = { nodes: [], edges: [] };
    ring.self = ring;
    for (const input of [
      deep,
      ring,
      { nodes: [{ ...end, config: { deep } }], edges: [] },
      { nodes: [{ ...end, config: { wide: Array.from({ length: 1_000_000 }, () => 1) } }], edges: [] },
    ]) {
      expect(publish(input)).toMatchObject({ graph: null, defects: [{ code: 'too_large' }] });
    }
  });
});

describe('any input', () => {
  const slug = fc.constantFrom('trigger', 'a', 'b', 'c', 'end', 'constructor');
  const config = fc.oneof(
    fc.jsonValue({ maxDepth: 3 }),
    fc.record({ type: fc.constantFrom('manual', 'event'), action: fc.constantFrom('ADD_TAG', 'toString'), with: fc.jsonValue() }, { requiredKeys: [] }),
  );
  const node = fc.record(
    { id: slug, type: fc.constantFrom('trigger', 'action', 'wait', 'condition', 'end', '__proto__', 'SEND_FAX'), config: fc.oneof(config, fc.constant({})) },
    { requiredKeys: ['id', 'type'] },
  );
  const edge = fc.record(
    { id: fc.constantFrom('e1', 'e2'), from: slug, to: slug, port: fc.constantFrom('next', 'failed', 'true', 'false', 'maybe') },
    { requiredKeys: ['from', 'to'] },
  );
  const near = fc.record({
    nodes: fc.array(fc.oneof({ weight: 9, arbitrary: node }, { weight: 1, arbitrary: fc.jsonValue() })),
    edges: fc.array(fc.oneof({ weight: 9, arbitrary: edge }, { weight: 1, arbitrary: fc.jsonValue() })),
  });
  const any = fc.oneof(fc.jsonValue(), near as fc.Arbitrary<unknown>);

  test('no JSON makes it throw, and every defect has a known code and a sentence', () => {
    fc.assert(
      fc.property(any, (input) => {
        for (const { defects, warnings, graph } of [publish(input), saveDraft(input)]) {
          expect(defects.every(({ code, message }) => Object.hasOwn(DEFECTS, code) && message !== '')).toBe(true);
          expect(warnings.every(({ code }) => DEFECTS[code] === 'warning')).toBe(true);
          expect(graph !== null || defects.length > 0).toBe(true);
        }
      }),
      { numRuns: 1_000 },
    );
  });

  test('whatever refuses a draft refuses publishing too', () => {
    fc.assert(
      fc.property(any, (input) => {
        const { defects } = publish(input);
        expect(defects).toEqual(expect.arrayContaining(saveDraft(input).defects));
      }),
    );
  });

  test('asking again with the answered graph gives the same answer', () => {
    fc.assert(
      fc.property(fc.oneof(any, validGraph), (input) => {
        const first = publish(input);
        if (first.graph !== null) expect(publish(structuredClone(first.graph))).toEqual(first);
      }),
      { numRuns: 500 },
    );
  });

  test('a graph that keeps the rules has no defect', () => {
    fc.assert(
      fc.property(validGraph, (graph) => {
        expect(publish(graph).defects).toEqual([]);
      }),
      { numRuns: 500 },
    );
  });

  test('taking one edge out of a graph that keeps the rules is noticed, unless it was an optional one', () => {
    fc.assert(
      fc.property(validGraph, fc.nat(), (graph, pick) => {
        const at = pick % graph.edges.length;
        const kept = graph.edges.filter((_, i) => i !== at);
        expect(publish({ ...graph, edges: kept }).defects.length > 0 || graph.edges[at]?.port === 'failed').toBe(true);
      }),
    );
  });

  test('the input is left as it was', () => {
    const input = Object.freeze({
      nodes: Object.freeze([Object.freeze(trigger), Object.freeze(end)]),
      edges: Object.freeze([Object.freeze({ from: 'trigger', to: 'end' })]),
    });
    expect(validateGraph(input, { actions, purpose: 'publish' }).defects).toEqual([]);
  });
});
