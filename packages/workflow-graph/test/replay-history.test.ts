import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { compileGraph } from '../src/compile-graph.js';
import { enter, follow, type HistoryEntry, replayHistory } from '../src/interpret.js';
import { action, condition, edges, end, trigger, validGraph } from './graphs.js';

const compiled = compileGraph({
  nodes: [trigger, condition('c', { field: 'k', op: 'exists' }), action('a'), action('b'), end],
  edges: edges('trigger -> c', 'c.true -> a', 'c.false -> b', 'a -> end', 'b -> end'),
});
const entry = (seq: number, node: string, port: string | null, extra: Partial<HistoryEntry> = {}): HistoryEntry => ({
  seq,
  node,
  type: compiled.node(node)?.type ?? 'action',
  port,
  ...extra,
});
const whole = [entry(1, 'trigger', 'next'), entry(2, 'c', 'true', { seen: [{ field: 'k', value: 1 }] }), entry(3, 'a', 'next'), entry(4, 'end', null)];

describe('replaying a history', () => {
  test('an empty one stands nowhere yet', () => {
    expect(replayHistory(compiled, [])).toEqual({ ok: true, at: null, seq: 0 });
  });

  test('a whole one ends on its end', () => {
    expect(replayHistory(compiled, whole)).toEqual({ ok: true, at: 'end', seq: 4 });
  });

  test('one under way stands where its last port leads, as the next step', () => {
    expect(replayHistory(compiled, whole.slice(0, 2))).toEqual({ ok: true, at: 'a', seq: 3 });
  });

  test('a step that is open or failed is where the run stands', () => {
    expect(replayHistory(compiled, [...whole.slice(0, 2), entry(3, 'a', null)])).toEqual({ ok: true, at: 'a', seq: 3 });
  });

  test('a run whose last port leads nowhere stands where it left', () => {
    expect(replayHistory(compiled, [...whole.slice(0, 2), entry(3, 'a', 'failed')])).toEqual({ ok: true, at: 'a', seq: 3 });
  });

  test.each<[string, HistoryEntry[], number, string]>([
    ['a gap', [entry(1, 'trigger', 'next'), entry(3, 'c', 'true')], 2, 'seq 3 stands where 2 should'],
    ['a repeat', [entry(1, 'trigger', 'next'), entry(1, 'trigger', 'next')], 2, 'seq 1 stands where 2 should'],
    ['a beginning that is not the trigger', [entry(1, 'c', 'true')], 1, 'not the trigger'],
    ['a node the graph does not have', [entry(1, 'trigger', 'next'), entry(2, 'ghost', 'next')], 2, 'no node'],
    ['another type than the graph gives', [entry(1, 'trigger', 'next'), entry(2, 'c', 'true', { type: 'wait' })], 2, 'of the type'],
    ['a step that is not where the port leads', [...whole.slice(0, 2), entry(3, 'b', 'next')], 3, 'leads to "a", not to "b"'],
    ['a step after one that was not left', [...whole.slice(0, 2), entry(3, 'a', null), entry(4, 'end', null)], 4, 'was not left'],
    ['a step after a port that leads nowhere', [...whole.slice(0, 2), entry(3, 'a', 'failed'), entry(4, 'end', null)], 4, 'leads nowhere'],
    [
      'a port that the recorded values do not decide',
      [entry(1, 'trigger', 'next'), entry(2, 'c', 'false', { seen: [{ field: 'k', value: 1 }] })],
      2,
      'decide for "true"',
    ],
    [
      'values of other fields than the condition tests',
      [entry(1, 'trigger', 'next'), entry(2, 'c', 'true', { seen: [{ field: 'x', value: 1 }] })],
      2,
      'other fields',
    ],
    ['a replay of a step that is not before it', [...whole.slice(0, 2), entry(3, 'a', null, { replayOf: 3 })], 3, 'not before it'],
  ])('%s is found, with its place and what is wrong', (_, entries, seq, reason) => {
    expect(replayHistory(compiled, entries)).toEqual({ ok: false, seq, reason: expect.stringContaining(reason) });
  });

  test('a step reopened by a replay may stand anywhere, and the rules hold again from there', () => {
    const failed = [...whole.slice(0, 2), entry(3, 'a', null)];
    expect(replayHistory(compiled, [...failed, entry(4, 'a', 'next', { replayOf: 3 }), entry(5, 'end', null)])).toEqual({ ok: true, at: 'end', seq: 5 });
    expect(replayHistory(compiled, [...failed, entry(4, 'end', null, { replayOf: 3 })])).toMatchObject({ ok: true });
    expect(replayHistory(compiled, [...failed, entry(4, 'a', 'next', { replayOf: 3 }), entry(5, 'b', 'next')])).toMatchObject({ ok: false, seq: 5 });
  });

  test('what the interpreter passed, replayed, stands where the interpreter came to rest', () => {
    fc.assert(
      fc.property(validGraph, fc.array(fc.dictionary(fc.constantFrom('k0', 'k1', 'k2'), fc.jsonValue()), { minLength: 1, maxLength: 8 }), (graph, contacts) => {
        const drawn = compileGraph(graph);
        const entries: HistoryEntry[] = [];
        const options = { maxPasses: 100, onUnknown: 'fail' } as const;
        let { passed, at } = enter(drawn, 'trigger', { contact: { attributes: contacts[0] ?? {} } }, options);
        for (const attributes of contacts) {
          for (const pass of passed) entries.push({ seq: entries.length + 1, ...pass });
          expect(replayHistory(drawn, JSON.parse(JSON.stringify(entries)))).toEqual({
            ok: true,
            at: at.node,
            seq: entries.length + (at.kind === 'end' ? 0 : 1),
          });
          if (at.kind !== 'node') return;
          entries.push({ seq: entries.length + 1, node: at.node, type: drawn.node(at.node)?.type ?? '', port: 'next' });
          ({ passed, at } = follow(drawn, at.node, 'next', { contact: { attributes } }, options));
        }
      }),
      { numRuns: 300 },
    );
  });
});
