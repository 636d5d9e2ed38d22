import { expect, test } from 'vitest';
import { ALONE, createLanes, MAX_ALONE, MAX_LANES, MAX_TOGETHER } from '../../src/runtime/frame-lanes.js';

/** Who shares a transaction with whom. What is done in it is given here by hand. */

type Flush = { items: string[]; answer(answers: (string | typeof ALONE)[]): void; fail(error: unknown): void };
type Single = { item: string; answer(answer: string): void; fail(error: unknown): void };

function bench() {
  const flushes: Flush[] = [];
  const singles: Single[] = [];
  const handle = createLanes<string, string>({
    together: (items) => new Promise((answer, fail) => flushes.push({ items: [...items], answer, fail })),
    alone: (item) => new Promise((answer, fail) => singles.push({ item, answer, fail })),
    refuse: (error) => (error === 'away' ? 'refused' : null),
  });
  const flushed = async (count: number) => {
    await expect.poll(() => flushes.length, { timeout: 10_000 }).toBe(count);
    return flushes[count - 1] as Flush;
  };
  const turns = async () => {
    for (let turn = 0; turn < 5; turn += 1) await new Promise((resolve) => setImmediate(resolve));
  };
  return { flushes, singles, handle, flushed, turns };
}

const names = (count: number, from = 0) => Array.from({ length: count }, (_, nth) => `run-${from + nth}`);
const done = ({ items }: Flush) => items.map((item) => `done ${item}`);

test('what comes in one turn goes together, and each is answered its own', async () => {
  const { handle, flushed } = bench();
  const answers = Promise.all(names(3).map((name) => handle(name)));
  const flush = await flushed(1);
  expect(flush.items).toEqual(names(3));
  flush.answer(done(flush));
  expect(await answers).toEqual(names(3).map((name) => `done ${name}`));
});

test('while all lanes are taken what comes waits, and goes together when one is free', async () => {
  const { flushes, handle, flushed, turns } = bench();
  for (let lane = 1; lane <= MAX_LANES; lane += 1) {
    void handle(`lane-${lane}`);
    await flushed(lane);
  }
  for (const name of names(5)) void handle(name);
  await turns();
  expect(flushes).toHaveLength(MAX_LANES);
  const [first] = flushes;
  first?.answer(done(first));
  expect((await flushed(MAX_LANES + 1)).items).toEqual(names(5));
});

test('a flush takes so many and no more', async () => {
  const { handle, flushed } = bench();
  for (const name of names(MAX_TOGETHER + 1)) void handle(name);
  expect((await flushed(2)).items).toEqual([`run-${MAX_TOGETHER}`]);
});

test('one that cannot share is handled alone, and answered then', async () => {
  const { singles, handle, flushed, turns } = bench();
  const answer = handle('run');
  (await flushed(1)).answer([ALONE]);
  await turns();
  expect(singles.map(({ item }) => item)).toEqual(['run']);
  singles[0]?.answer('alone');
  expect(await answer).toBe('alone');
});

test('when a flush fails each is handled alone, so many at a time, and the one at fault fails alone', async () => {
  const { singles, handle, flushed, turns } = bench();
  const count = MAX_ALONE + 1;
  const answers = Promise.allSettled(names(count).map((name) => handle(name)));
  (await flushed(1)).fail(new Error('a row that cannot be written'));
  await turns();
  expect(singles).toHaveLength(MAX_ALONE);
  singles[0]?.fail(new Error('at fault'));
  for (const one of singles.slice(1)) one.answer(`alone ${one.item}`);
  await turns();
  singles[MAX_ALONE]?.answer('alone, the last');
  expect((await answers).map(({ status }) => status)).toEqual(['rejected', ...Array(MAX_ALONE).fill('fulfilled')]);
});

test('where it would help nobody to try alone, all are refused', async () => {
  const { singles, handle, flushed } = bench();
  const answers = Promise.all(names(3).map((name) => handle(name)));
  (await flushed(1)).fail('away');
  expect(await answers).toEqual(['refused', 'refused', 'refused']);
  expect(singles).toEqual([]);
});
