import { expect, test } from 'vitest';
import { createGroupCommit } from '../../src/database/group-commit.js';

/** Flushes that end when the test says so. */
function latched({ lanes = 1, max = 10, full }: { lanes?: number; max?: number; full?: number } = {}) {
  const flushes: { entries: readonly number[]; end(error?: Error): void }[] = [];
  const tried: number[] = [];
  const commit = createGroupCommit<number, string>({
    lanes,
    max,
    weightOf: (entry) => Math.max(1, entry / 100),
    flush: (entries) =>
      new Promise((resolve, reject) =>
        flushes.push({ entries, end: (error) => (error ? reject(error) : resolve(entries.map((entry) => `together ${entry}`))) }),
      ),
    alone: async (entry, { size }) => {
      tried.push(entry);
      if (entry === 13) throw new Error('unlucky');
      if (entry === 14) throw new Error('away');
      return `alone ${entry} of ${size}`;
    },
    isForAll: (error) => error instanceof Error && error.message === 'away',
    ...(full === undefined ? {} : { full: { weight: full, refusal: () => new Error('full') } }),
  });
  const flushed = async (count: number) => {
    await expect.poll(() => flushes.length).toBeGreaterThanOrEqual(count);
    return flushes[count - 1] as (typeof flushes)[number];
  };
  return { commit, flushes, flushed, tried };
}
const settled = async (answers: Promise<string>[]) =>
  (await Promise.allSettled(answers)).map((one) => (one.status === 'fulfilled' ? one.value : (one.reason as Error).message));

test('an entry goes at once, and what comes meanwhile goes together in the order it came when a lane is free', async () => {
  const { commit, flushes, flushed } = latched();
  const first = commit(1);
  const one = await flushed(1);
  const later = [2, 3, 4].map(commit);
  expect(flushes.map(({ entries }) => entries)).toEqual([[1]]);
  one.end();
  expect(await first).toBe('together 1');
  (await flushed(2)).end();
  expect(await settled(later)).toEqual(['together 2', 'together 3', 'together 4']);
  expect(flushes.map(({ entries }) => entries)).toEqual([[1], [2, 3, 4]]);
});

test('what is handed over in one go goes together', async () => {
  const { commit, flushed } = latched({ lanes: 2 });
  const answers = [1, 2, 3].map(commit);
  const { entries, end } = await flushed(1);
  expect(entries).toEqual([1, 2, 3]);
  end();
  await settled(answers);
});

test('no more flushes run at a time than there are lanes, and none is heavier than it may be unless one entry is', async () => {
  const { commit, flushes, flushed } = latched({ lanes: 2, max: 2 });
  const answers = [1, 2, 3, 4, 500, 5].map(commit);
  await flushed(2);
  expect(flushes.map(({ entries }) => entries)).toEqual([
    [1, 2],
    [3, 4],
  ]);
  for (let nth = 1; nth <= 4; nth += 1) (await flushed(nth)).end();
  expect(await settled(answers)).toHaveLength(6);
  expect(flushes.map(({ entries }) => entries)).toEqual([[1, 2], [3, 4], [500], [5]]);
});

test('of a flush that failed each entry is tried alone, and only the one at fault fails', async () => {
  const { commit, flushed } = latched();
  const answers = [1, 13, 3].map(commit);
  (await flushed(1)).end(new Error('poisoned'));
  expect(await settled(answers)).toEqual(['alone 1 of 3', 'unlucky', 'alone 3 of 3']);
  const next = commit(4);
  (await flushed(2)).end();
  expect(await next).toBe('together 4');
});

test('a fault that concerns everybody fails all who are left, and nobody is tried any more', async () => {
  const { commit, flushed, tried } = latched();
  const answers = [1, 14, 3].map(commit);
  (await flushed(1)).end(new Error('poisoned'));
  expect(await settled(answers)).toEqual(['alone 1 of 3', 'away', 'away']);
  const others = [5, 6].map(commit);
  (await flushed(2)).end(new Error('away'));
  expect(await settled(others)).toEqual(['away', 'away']);
  expect(tried).toEqual([1, 14]);
});

test('who comes when too much waits is refused at once, and taken again when there is room', async () => {
  const { commit, flushed } = latched({ full: 2 });
  const first = commit(1);
  const one = await flushed(1);
  const waiting = [2, 3].map(commit);
  await expect(commit(4)).rejects.toThrow('full');
  one.end();
  await first;
  const two = await flushed(2);
  const late = commit(5);
  two.end();
  (await flushed(3)).end();
  expect(await settled([...waiting, late])).toEqual(['together 2', 'together 3', 'together 5']);
});

test('a flush is told whether another is at work or waits', async () => {
  const seen: (() => boolean)[] = [];
  const ends: (() => void)[] = [];
  const commit = createGroupCommit<number, number>({
    lanes: 2,
    max: 1,
    flush: (entries, isBusy) => {
      seen.push(isBusy);
      return new Promise((resolve) => ends.push(() => resolve(entries)));
    },
  });
  const answers = [commit(1)];
  await expect.poll(() => seen.length).toBe(1);
  expect(seen[0]?.()).toBe(false);
  answers.push(commit(2));
  await expect.poll(() => seen.length).toBe(2);
  expect(seen[0]?.()).toBe(true);
  answers.push(commit(3));
  ends[0]?.();
  await expect.poll(() => seen.length).toBe(3);
  ends[1]?.();
  await answers[1];
  await expect.poll(() => seen[2]?.()).toBe(false);
  ends[2]?.();
  expect(await Promise.all(answers)).toEqual([1, 2, 3]);
});
