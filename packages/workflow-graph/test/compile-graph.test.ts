import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { compileGraph } from '../src/compile-graph.js';
import { action, condition, edges, end, trigger } from './graphs.js';

describe('compileGraph', () => {
  test('nodes are found by id, edges by node and port', () => {
    const compiled = compileGraph({ nodes: [trigger, condition('c'), end], edges: edges('trigger -> c', 'c.true -> end', 'c.false -> c') });
    expect(compiled.trigger).toBe('trigger');
    expect(compiled.node('c')?.type).toBe('condition');
    expect(compiled.edgeFrom('trigger', 'next')).toBe('c');
    expect(compiled.edgeFrom('c', 'false')).toBe('c');
    expect(compiled.edgeFrom('c', 'next')).toBeUndefined();
    expect(compiled.firstEdgeFrom('c')).toEqual({ port: 'true', to: 'end' });
    expect(compiled.firstEdgeFrom('end')).toBeUndefined();
  });

  test('of nodes with one id, of triggers, and of edges out of one port the first counts', () => {
    const compiled = compileGraph({ nodes: [{ ...trigger, id: 't1' }, trigger, action('a'), { ...end, id: 'a' }], edges: edges('a -> trigger', 'a -> a') });
    expect(compiled.trigger).toBe('t1');
    expect(compiled.node('a')?.type).toBe('action');
    expect(compiled.nodes.map(({ id }) => id)).toEqual(['t1', 'trigger', 'a']);
    expect(compiled.edgeFrom('a', 'next')).toBe('trigger');
  });

  test('edges from or to a node that is not there do not count', () => {
    const compiled = compileGraph({ nodes: [action('a')], edges: edges('a -> ghost', 'ghost -> a', 'a.failed -> a') });
    expect(compiled.edgeFrom('a', 'next')).toBeUndefined();
    expect(compiled.edgeFrom('ghost', 'next')).toBeUndefined();
    expect(compiled.firstEdgeFrom('a')).toEqual({ port: 'failed', to: 'a' });
  });

  test('names of the prototype are ids like any other', () => {
    const compiled = compileGraph({ nodes: [{ id: 'constructor', type: 'end' }], edges: [] });
    expect(compiled.node('constructor')?.type).toBe('end');
    expect(compiled.node('toString')).toBeUndefined();
    expect(compiled.edgeFrom('constructor', 'toString')).toBeUndefined();
  });

  test('what can be read of a broken graph is there, and nothing makes it throw', () => {
    const compiled = compileGraph({
      nodes: [null, 7, { id: 'x' }, { type: 'end' }, { id: 'w', type: 'wait', config: 'soon' }],
      edges: [null, { from: 'x' }, { from: 'x', to: 'w', port: 3 }],
    });
    expect(compiled.nodes).toEqual([
      { id: 'x', type: '', config: {} },
      { id: 'w', type: 'wait', config: {} },
    ]);
    expect(compiled.edgeFrom('x', 'next')).toBe('w');
    fc.assert(fc.property(fc.anything(), (input) => compileGraph(input).node('a') === undefined));
    fc.assert(fc.property(fc.array(fc.jsonValue()), fc.array(fc.jsonValue()), (nodes, drawn) => compileGraph({ nodes, edges: drawn }).trigger === undefined));
  });
});
