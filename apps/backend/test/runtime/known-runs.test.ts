import { expect, test } from 'vitest';
import type { Attempt } from '../../src/runs/attempt.entity.js';
import type { Run } from '../../src/runs/run.entity.js';
import { isRowOf, KnownRuns, type LockedRow } from '../../src/runtime/known-runs.js';

function saved({ id = 'r1', state = 'running', stamp = '100', output = null as unknown, context = undefined as unknown } = {}) {
  const run = { id, state, epoch: 2, seq: 3 } as Run;
  const read = new Map([[3, [{ runId: id, seq: 3, n: 1, input: null, output } as Attempt]]]);
  return { run, stamp, read, ...(context !== undefined && { context: context as never }) };
}
const row = { id: 'r1', stamp: '100', epoch: 2, seq: 3 };

const find = (known: KnownRuns, row: LockedRow) => {
  const one = known.peek(row.id);
  return one && isRowOf(one, row) ? one : undefined;
};

test('a run is known by the row it was written as, and by no other', () => {
  const known = new KnownRuns();
  known.keep([saved()]);
  expect(find(known, row)).toMatchObject({ run: { id: 'r1', seq: 3 }, attempts: [{ n: 1 }] });
  expect(find(known, { ...row, stamp: '101' })).toBeUndefined();
  expect(find(known, { ...row, epoch: 3 })).toBeUndefined();
  expect(find(known, { ...row, seq: 4 })).toBeUndefined();
  expect(find(known, { ...row, id: 'r2' })).toBeUndefined();
});

test('what it was before is forgotten when it is written again, or rests', () => {
  const known = new KnownRuns();
  known.keep([saved()]);
  known.keep([saved({ stamp: '101' })]);
  expect(find(known, row)).toBeUndefined();
  expect(find(known, { ...row, stamp: '101' })).toBeDefined();
  known.keep([saved({ state: 'waiting', stamp: '102' })]);
  expect(find(known, { ...row, stamp: '102' })).toBeUndefined();
});

test('a run whose attempts of the step were not read is not known', () => {
  const known = new KnownRuns();
  known.keep([{ ...saved(), read: new Map() }]);
  expect(find(known, row)).toBeUndefined();
});

test('large outputs and large starts are read again', () => {
  const known = new KnownRuns();
  known.keep([saved({ output: 'x'.repeat(2_000) })]);
  expect(find(known, row)).toBeUndefined();
  known.keep([saved({ context: { event: 'x'.repeat(2_000) } })]);
  expect(find(known, row)).toBeDefined();
  expect(find(known, row)).not.toHaveProperty('context');
  known.keep([saved({ context: { event: 'x' } })]);
  expect(find(known, row)).toMatchObject({ context: { event: 'x' } });
});

test('4,000 are known, and the one written first goes first', () => {
  const known = new KnownRuns();
  known.keep(Array.from({ length: 4_000 }, (_, nth) => saved({ id: `r${nth}` })));
  known.keep([saved({ id: 'r0', stamp: '200' }), saved({ id: 'r4000' })]);
  expect(find(known, { ...row, id: 'r1' })).toBeUndefined();
  expect(find(known, { ...row, id: 'r0', stamp: '200' })).toBeDefined();
  expect(find(known, { ...row, id: 'r2' })).toBeDefined();
});
