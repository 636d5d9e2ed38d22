/** When a run may be begun. That outcomes are recorded all the same stands in worker.test.ts, with a backend that answers slowly. */
import { expect, onTestFinished, test } from 'vitest';
import { IntakeGate } from '../src/intake-gate.js';

const nextTurn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

function start(concurrency = 16) {
  const stopping = new AbortController();
  onTestFinished(() => stopping.abort());
  const gate = new IntakeGate(concurrency, stopping.signal);
  const said: string[] = [];
  const enter = (name: string) => void gate.enter().then((answer) => said.push(`${name}: ${answer}`));
  const takeLong = () => {
    for (let frame = 0; frame < 10; frame += 1) gate.noteFrame(3_000);
  };
  return { gate, stopping, said, enter, takeLong };
}

test('all runs are begun at once while frames are fast, and one slow frame among them holds up nobody', async () => {
  const { gate, said, enter } = start();
  for (let frame = 0; frame < 10; frame += 1) gate.noteFrame(20);
  gate.noteFrame(3_000);
  for (let run = 0; run < 16; run += 1) enter(`${run}`);
  await nextTurn();
  expect(said).toHaveLength(16);
});

test('while frames take long, a run is begun only when fewer than an eighth of the places are in hand, first come, first served', async () => {
  const { gate, said, enter, takeLong } = start();
  takeLong();
  for (const name of ['a', 'b', 'c', 'd']) enter(name);
  await nextTurn();
  expect(said).toEqual(['a: begin', 'b: begin']);
  gate.leave();
  await nextTurn();
  expect(said).toEqual(['a: begin', 'b: begin', 'c: begin']);
});

test('all who wait begin once frames are fast again', async () => {
  const { gate, said, enter, takeLong } = start();
  takeLong();
  for (const name of ['a', 'b', 'c', 'd']) enter(name);
  for (let frame = 0; frame < 20; frame += 1) gate.noteFrame(5);
  await nextTurn();
  expect(said).toEqual(['a: begin', 'b: begin', 'c: begin', 'd: begin']);
});

test('a worker of one place is never shut out', async () => {
  const { said, enter, takeLong } = start(1);
  takeLong();
  enter('a');
  await nextTurn();
  expect(said).toEqual(['a: begin']);
});

test('whoever waits is sent away when the worker stops, and so is whoever comes later', async () => {
  const { stopping, said, enter, takeLong } = start();
  takeLong();
  for (const name of ['a', 'b', 'c']) enter(name);
  await nextTurn();
  stopping.abort();
  await nextTurn();
  expect(said).toEqual(['a: begin', 'b: begin', 'c: stopping']);
  enter('d');
  await nextTurn();
  expect(said).toEqual(['a: begin', 'b: begin', 'c: stopping', 'd: stopping']);
});
