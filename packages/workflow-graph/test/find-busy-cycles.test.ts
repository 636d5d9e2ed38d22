import fc from 'fast-check';
import { expect, test } from 'vitest';
import { findBusyCycles } from '../src/find-busy-cycles.js';

const IDS = ['a', 'b', 'c', 'd', 'e', 'f', 'g'];
type Ways = Record<string, string[]>;
const nodesOf = (types: Record<string, string> = {}) => IDS.map((id) => ({ id, type: types[id] ?? 'action', config: {} }));
const find = (ways: Ways, types?: Record<string, string>) => findBusyCycles(nodesOf(types), (id) => ways[id] ?? []);

test('a knot that is reached from another keeps to itself', () => {
  expect(find({ a: ['b', 'd'], b: ['c'], c: ['b'], d: ['e'], e: ['d', 'b'] })).toEqual([
    ['b', 'c'],
    ['d', 'e'],
  ]);
});

test('a wait unties a knot', () => {
  const ways = { a: ['b'], b: ['c'], c: ['a'] };
  expect(find(ways)).toEqual([['a', 'b', 'c']]);
  expect(find(ways, { b: 'wait' })).toEqual([]);
  expect(find({ a: ['a'] }, { a: 'wait' })).toEqual([]);
});

test('nodes that reach each other have one cycle answered between them, and it runs along edges', () => {
  const drawn = fc.dictionary(fc.constantFrom(...IDS), fc.uniqueArray(fc.constantFrom(...IDS), { maxLength: 3 }), { maxKeys: 7 });
  const waits = fc.uniqueArray(fc.constantFrom(...IDS), { maxLength: 2 });
  fc.assert(
    fc.property(drawn, waits, (ways, waiting) => {
      const busy = IDS.filter((id) => !waiting.includes(id));
      // The naive way: who reaches whom, by adding one step at a time until nothing is added.
      const reach = new Map(busy.map((id) => [id, new Set((ways[id] ?? []).filter((to) => busy.includes(to)))]));
      for (const _ of IDS) for (const seen of reach.values()) for (const via of [...seen]) for (const to of reach.get(via) ?? []) seen.add(to);
      const knots = new Set(
        busy.filter((id) => reach.get(id)?.has(id)).map((id) => busy.filter((other) => reach.get(id)?.has(other) && reach.get(other)?.has(id)).join()),
      );

      const cycles = find(ways, Object.fromEntries(waiting.map((id) => [id, 'wait'])));
      expect(new Set(cycles.map(([id = '']) => [...knots].find((knot) => knot.split(',').includes(id))))).toEqual(knots);
      expect(cycles).toHaveLength(knots.size);
      for (const cycle of cycles) {
        cycle.forEach((id, i) => {
          expect(ways[id]).toContain(cycle[(i + 1) % cycle.length]);
        });
      }
    }),
    { numRuns: 1_000 },
  );
});
