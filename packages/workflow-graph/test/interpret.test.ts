import type { Json } from '@onward/contracts/json';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { compileGraph } from '../src/compile-graph.js';
import { enter, type Following, follow, type InterpretOptions } from '../src/interpret.js';
import { action, around, condition, edges, end, readFixture, type Sketch, trigger, validGraph, wait } from './graphs.js';

const options: InterpretOptions = { maxPasses: 1_000, onUnknown: 'advance' };
const exists = (field: string): Json => ({ field, op: 'exists' });
const start = (graph: Sketch, scope: unknown = {}, opts = options): Following => enter(compileGraph(graph), 'trigger', scope, opts);
const path = ({ passed }: Following) => passed.map(({ node, port }) => `${node}.${port}`);

describe('following edges', () => {
  test('a start passes the trigger and stands on the first node that acts', () => {
    expect(start(around(action('a')))).toEqual({ passed: [{ node: 'trigger', type: 'trigger', port: 'next' }], at: { kind: 'node', node: 'a' } });
  });

  test('a run stands on a wait', () => {
    expect(start(around(wait('w', '2h'))).at).toEqual({ kind: 'node', node: 'w' });
  });

  test('a condition is passed with what it saw', () => {
    const graph = around(condition('c', exists('contact.attributes.k')), 'true', 'false');
    expect(start(graph, { contact: { attributes: { k: 'x' } } }).passed[1]).toEqual({
      node: 'c',
      type: 'condition',
      port: 'true',
      seen: [{ field: 'contact.attributes.k', value: 'x' }],
    });
    expect(start(graph).passed[1]).toEqual({ node: 'c', type: 'condition', port: 'false', seen: [{ field: 'contact.attributes.k', value: null }] });
  });

  test('the end is the last node passed', () => {
    expect(follow(compileGraph(around(action('a'))), 'a', 'next', {}, options)).toEqual({
      passed: [{ node: 'end', type: 'end', port: null }],
      at: { kind: 'end', node: 'end' },
    });
  });

  test('what leaves by its failed port goes where that leads', () => {
    const graph = { nodes: [trigger, action('a'), action('b'), end], edges: edges('trigger -> a', 'a -> end', 'a.failed -> b', 'b -> end') };
    expect(follow(compileGraph(graph), 'a', 'failed', {}, options).at).toEqual({ kind: 'node', node: 'b' });
  });

  test.each(['a', 'w', 'trigger', 'nowhere'])('an edge that is not there fails the run, naming the node: %s', (node) => {
    const compiled = compileGraph({ nodes: [trigger, action('a'), wait('w', '2h')], edges: edges('a -> ghost') });
    expect(follow(compiled, node, 'next', {}, options)).toMatchObject({
      passed: [],
      at: { kind: 'failed', node, failure: { code: 'no_edge', message: expect.stringContaining(`"${node}"`) } },
    });
  });

  test('a trigger or condition without its edge fails, keeping what it saw', () => {
    expect(start({ nodes: [trigger], edges: [] })).toMatchObject({ passed: [], at: { kind: 'failed', node: 'trigger', failure: { code: 'no_edge' } } });
    expect(start(around(condition('c', exists('k')), 'true'))).toMatchObject({
      passed: [{ node: 'trigger' }],
      at: { kind: 'failed', node: 'c', failure: { code: 'no_edge', detail: { seen: [{ field: 'k', value: null }] } } },
    });
  });

  test('a start at a node that is not there fails', () => {
    expect(enter(compileGraph(null), 'trigger', {}, options)).toMatchObject({
      passed: [],
      at: { kind: 'failed', node: 'trigger', failure: { code: 'no_edge' } },
    });
  });

  test.each<Json>([
    {},
    { tests: [] },
    { tests: 'x' },
    { tests: [{ field: 'a..b', op: 'exists' }] },
    { tests: [{ field: 'a', op: 'contains', value: '' }] },
    { tests: [exists('a')], match: 'none' },
  ])('a condition whose config is %j fails the run, naming the node', (config) => {
    const graph = around({ id: 'c', type: 'condition', config: config as Record<string, Json> }, 'true', 'false');
    expect(start(graph).at).toMatchObject({ kind: 'failed', node: 'c', failure: { code: 'config_invalid', message: expect.stringContaining('"c"') } });
  });

  test('a loop that never pauses stops at the cap, naming the next node', () => {
    const graph = { nodes: [trigger, condition('c', exists('k')), condition('d', exists('k'))], edges: edges('trigger -> c', 'c.false -> d', 'd.false -> c') };
    const { passed, at } = start(graph, {}, { ...options, maxPasses: 10 });
    expect(passed).toHaveLength(10);
    expect(at).toEqual({ kind: 'cap', node: 'd' });
    expect(start(graph, {}, { ...options, maxPasses: 0 })).toEqual({ passed: [], at: { kind: 'cap', node: 'trigger' } });
    expect(start(graph, {}, { ...options, maxPasses: Number.NaN }).at.kind).toBe('cap');
  });

  test('the cap counts nodes that are passed, not the one a run stands on', () => {
    expect(start(around(action('a')), {}, { ...options, maxPasses: 1 }).at).toEqual({ kind: 'node', node: 'a' });
    expect(follow(compileGraph(around(action('a'))), 'a', 'next', {}, { ...options, maxPasses: 0 }).at).toEqual({ kind: 'cap', node: 'end' });
  });
});

describe('F20: unknown node type must not hurt the others', () => {
  const fax = around({ id: 'fax', type: 'SEND_FAX' }, 'sent', 'failed');
  test('F20: the run goes on along the first edge, marked', () => {
    expect(start(fax)).toEqual({
      passed: [
        { node: 'trigger', type: 'trigger', port: 'next' },
        { node: 'fax', type: 'SEND_FAX', port: 'sent', mark: 'unknown_node' },
        { node: 'end', type: 'end', port: null },
      ],
      at: { kind: 'end', node: 'end' },
    });
  });
  test('F20: with no edge to follow the run ends failed, naming the node', () => {
    const { passed, at } = start({ nodes: [trigger, { id: 'fax', type: 'SEND_FAX' }], edges: edges('trigger -> fax') });
    expect(passed.map(({ node }) => node)).toEqual(['trigger']);
    expect(at).toMatchObject({ kind: 'failed', node: 'fax', failure: { code: 'unknown_node', message: expect.stringMatching(/"fax".*"SEND_FAX"/) } });
  });
  test('F20: when told to fail, it fails instead, naming the node', () => {
    expect(start(fax, {}, { ...options, onUnknown: 'fail' }).at).toMatchObject({ kind: 'failed', node: 'fax', failure: { code: 'unknown_node' } });
  });
  test('F20: a type named like a property of every object is unknown too', () => {
    expect(start(around({ id: 'x', type: 'constructor' })).passed[1]).toMatchObject({ node: 'x', mark: 'unknown_node' });
  });
});

describe('F21: branches that rejoin again and again', () => {
  test.each([
    [{ contact: { attributes: { k: 1 } } }, 't'],
    [{ contact: { attributes: {} } }, 'f'],
  ])('F21: with %j exactly 75 nodes are visited between trigger and end, each once', (scope, branch) => {
    const compiled = compileGraph(readFixture('f21-diamond-ladder-25.json'));
    const visited: string[] = [];
    let at = enter(compiled, 'trigger', scope, options);
    for (; at.at.kind === 'node'; at = follow(compiled, at.at.node, 'next', scope, options)) {
      visited.push(...at.passed.map(({ node }) => node), at.at.node);
    }
    expect(at.at).toEqual({ kind: 'end', node: 'end' });
    const between = visited.filter((node) => node !== 'trigger');
    expect(between).toHaveLength(75);
    expect(new Set(between).size).toBe(75);
    expect(between.filter((node) => node.startsWith(branch))).toHaveLength(25);
  });
});

test('F22: a node where two branches meet is reached once, whichever was taken', () => {
  const graph = {
    nodes: [trigger, condition('c', exists('k')), action('mail'), end],
    edges: edges('trigger -> c', 'c.true -> mail', 'c.false -> mail', 'mail -> end'),
  };
  for (const scope of [{ k: 1 }, {}]) expect(start(graph, scope).at).toEqual({ kind: 'node', node: 'mail' });
});

describe('any graph', () => {
  const scope = fc.record({
    contact: fc.record({ attributes: fc.record({ k0: fc.jsonValue(), k1: fc.jsonValue(), k2: fc.jsonValue() }, { requiredKeys: [] }) }),
  });

  test('a graph without a defect always leads to a node or an end, along edges that exist', () => {
    fc.assert(
      fc.property(validGraph, scope, (graph, seen) => {
        const compiled = compileGraph(graph);
        const { passed, at } = start(graph, seen);
        expect(['node', 'end']).toContain(at.kind);
        const stations = [...passed.map(({ node }) => node), ...(at.kind === 'node' ? [at.node] : [])];
        passed.forEach(({ node, port }, i) => {
          if (port !== null) expect(compiled.edgeFrom(node, port)).toBe(stations[i + 1]);
        });
      }),
      { numRuns: 500 },
    );
  });

  test('a graph with any defect is led through within the cap, along edges that exist, and never throws', () => {
    const id = fc.constantFrom('trigger', 'a', 'b', 'c', '__proto__');
    const type = fc.constantFrom('trigger', 'condition', 'action', 'end', 'SEND_FAX', '');
    const config = fc.oneof(fc.constant({ tests: [exists('k')] }), fc.jsonValue());
    const broken = fc.record({
      nodes: fc.array(fc.record({ id, type, config })),
      edges: fc.array(fc.record({ from: id, to: id, port: fc.constantFrom('next', 'true', 'false') })),
    });
    fc.assert(
      fc.property(broken, fc.jsonValue(), fc.nat(20), fc.constantFrom('advance' as const, 'fail' as const), (graph, seen, maxPasses, onUnknown) => {
        const { passed, at } = enter(compileGraph(graph), 'trigger', seen, { maxPasses, onUnknown });
        expect(passed.length).toBeLessThanOrEqual(maxPasses);
        const stations = [...passed.map(({ node }) => node), at.node];
        passed.forEach(({ node, port }, i) => {
          if (port !== null) expect(graph.edges).toContainEqual({ from: node, port, to: stations[i + 1] });
        });
      }),
      { numRuns: 1_000 },
    );
  });

  test('the same scope always leads the same way', () => {
    fc.assert(fc.property(validGraph, scope, (graph, seen) => path(start(graph, seen)).join() === path(start(graph, structuredClone(seen))).join()));
  });
});
