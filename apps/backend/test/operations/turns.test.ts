import { expect, test } from 'vitest';
import { Turns } from '../../src/operations/turns.js';

const take = (turns: Turns, workflowId: string, count: number) => Array.from({ length: count }, () => turns.take(workflowId));

test('the runs of one workflow come one turn after the other, and each workflow has one run in a turn', () => {
  const turns = new Turns();
  expect(take(turns, 'crowd', 3)).toEqual([0, 1, 2]);
  expect(take(turns, 'other', 2)).toEqual([0, 1]);
  expect(turns.ahead('crowd')).toBe(3);
  expect(turns.ahead('new')).toBe(0);
});

test('a run of a workflow that has none on the queue comes at the turn the queue has come to, and gains nothing by having been away', () => {
  const turns = new Turns();
  take(turns, 'crowd', 1_000);
  turns.note({ first: 400, last: 999 });
  expect(turns.ahead('crowd')).toBe(600);
  expect(take(turns, 'other', 2)).toEqual([400, 401]);
  turns.note({ first: 900, last: 999 });
  expect(turns.take('other')).toBe(900);
  expect(turns.take('crowd')).toBe(1_000);
});

test('those who come again and again do not keep a crowd waiting for ever: each of its runs has a turn that comes', () => {
  const turns = new Turns();
  const entries = take(turns, 'crowd', 50).map((turn) => ({ turn, workflowId: 'crowd' }));
  const handedOut: string[] = [];
  // Three hundred workflows of one run each, always there again as soon as it was handed out.
  for (let nth = 0; nth < 300; nth += 1) entries.push({ turn: turns.take(`w${nth}`), workflowId: `w${nth}` });
  while (entries.some(({ workflowId }) => workflowId === 'crowd') && handedOut.length < 20_000) {
    const first = entries.reduce((least, one) => (one.turn < least.turn ? one : least));
    turns.note({ first: first.turn, last: Math.max(...entries.map(({ turn }) => turn)) });
    entries.splice(entries.indexOf(first), 1);
    handedOut.push(first.workflowId);
    if (first.workflowId !== 'crowd') entries.push({ turn: turns.take(first.workflowId), workflowId: first.workflowId });
  }
  expect(handedOut.filter((id) => id === 'crowd')).toHaveLength(50);
});

test('turns begin anew where those on the queue stand, when another backend saw it run empty and this one did not', () => {
  const turns = new Turns();
  take(turns, 'crowd', 1_000);
  turns.note({ first: 900, last: 999 });
  turns.take('other');
  // The other backend has begun at 0 and given 500 turns, of which 20 are over.
  turns.note({ first: 20, last: 499 });
  expect(turns.ahead('crowd')).toBe(0);
  expect(take(turns, 'other', 2)).toEqual([20, 21]);
});

test('and when it is known to have run empty, whatever this one has told since at its old turns', () => {
  const turns = new Turns();
  take(turns, 'crowd', 1_000);
  turns.note({ first: 900, last: 999 });
  turns.take('early');
  turns.note({ first: 20, last: 900 }, true);
  expect(turns.ahead('crowd')).toBe(0);
  expect(take(turns, 'early', 2)).toEqual([20, 21]);
});

test('a run that comes back to the queue at an old turn draws nobody after it', () => {
  const turns = new Turns();
  take(turns, 'crowd', 1_000);
  turns.note({ first: 900, last: 999 });
  turns.note({ first: 3, last: 999 });
  expect(turns.take('other')).toBe(900);
  expect(turns.take('crowd')).toBe(1_000);
});

test('turns begin anew once nothing stands in turn, and none is given past the last there is', () => {
  const turns = new Turns();
  turns.note({ first: 2 ** 21 - 2, last: 2 ** 21 - 2 });
  expect(turns.ahead('crowd')).toBe(0);
  expect(take(turns, 'crowd', 3)).toEqual([2 ** 21 - 2, 2 ** 21 - 1, 2 ** 21 - 1]);
  expect(turns.ahead('crowd')).toBe(Number.POSITIVE_INFINITY);
  turns.note(null);
  expect(turns.ahead('crowd')).toBe(0);
  expect(turns.take('crowd')).toBe(0);
});
