import { expect, test } from 'vitest';
import { IntakeGate } from '../src/intake-gate.js';

/** Beginning runs while the backend is slow. With 16 runs at a time the floor is 2. */

function bench() {
  const stopping = new AbortController();
  const gate = new IntakeGate(16, stopping.signal);
  const begun: number[] = [];
  const enter = (nth: number) => void gate.enter().then((answer) => answer === 'begin' && begun.push(nth));
  const turn = () => new Promise((resolve) => setImmediate(resolve));
  const slow = () => {
    for (let frame = 0; frame < 20; frame += 1) gate.noteFrame(5_000);
  };
  return { gate, stopping, begun, enter, turn, slow };
}

test('while frames are answered quickly every run is begun at once', async () => {
  const { gate, begun, enter, turn } = bench();
  gate.noteFrame(20);
  for (let nth = 1; nth <= 16; nth += 1) enter(nth);
  await turn();
  expect(begun).toHaveLength(16);
});

test('while frames take long only as many runs as the floor are in hand, the next one begins when one is done, and all when it is quick again', async () => {
  const { gate, begun, enter, turn, slow } = bench();
  slow();
  for (let nth = 1; nth <= 5; nth += 1) enter(nth);
  await turn();
  expect(begun).toEqual([1, 2]);
  gate.leave();
  await turn();
  expect(begun).toEqual([1, 2, 3]);
  for (let frame = 0; frame < 20; frame += 1) gate.noteFrame(10);
  await turn();
  expect(begun).toEqual([1, 2, 3, 4, 5]);
});

test('whoever waits while the worker stops is sent away', async () => {
  const { gate, stopping, enter, turn, slow } = bench();
  slow();
  enter(1);
  enter(2);
  await turn();
  const waiting = gate.enter();
  stopping.abort();
  expect(await waiting).toBe('stopping');
  expect(await gate.enter()).toBe('stopping');
});
