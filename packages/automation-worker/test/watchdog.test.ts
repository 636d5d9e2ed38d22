import { expect, onTestFinished, test, vi } from 'vitest';
import { type Watched, watchForSilence } from '../src/watchdog.js';

const TIMES = { lookEveryMs: 5, silentForMs: 50 };

/** A watch over a queue as the test says it is. `looks` counts how often it was asked. */
function watch(given: Partial<Watched> = {}) {
  const seen = { looks: 0, rebuilt: 0, givenUp: 0, handOuts: 0 };
  const watched: Watched = {
    handOuts: () => seen.handOuts,
    hasFreePlace: () => true,
    countWaiting: async () => 3,
    ...given,
  };
  const countWaiting = () => {
    seen.looks += 1;
    return watched.countWaiting();
  };
  const end = watchForSilence({ ...watched, countWaiting }, TIMES, { rebuild: () => void (seen.rebuilt += 1), giveUp: () => void (seen.givenUp += 1) });
  onTestFinished(end);
  return seen;
}

/** So many looks that a silence of twice the time would long have been noticed. */
const MANY = 60;

test('silence while entries wait and places are free rebuilds once, and gives up once when it lasts', async () => {
  const seen = watch();
  await vi.waitFor(() => expect(seen.rebuilt).toBe(1), { timeout: 10_000 });
  expect(seen.givenUp).toBe(0);
  await vi.waitFor(() => expect(seen.givenUp).toBe(1), { timeout: 10_000 });
  const { looks } = seen;
  await new Promise((resolve) => setTimeout(resolve, 10 * TIMES.lookEveryMs));
  expect(seen).toMatchObject({ looks, rebuilt: 1, givenUp: 1 });
});

test.each<[string, Partial<Watched>]>([
  ['nothing waits', { countWaiting: async () => 0 }],
  ['no place is free', { hasFreePlace: () => false }],
  ['Valkey cannot say what waits', { countWaiting: async () => null }],
])('while %s, silence means nothing', async (_why, given) => {
  const seen = watch(given);
  await vi.waitFor(() => expect(seen.looks).toBeGreaterThan(MANY), { timeout: 20_000 });
  expect(seen).toMatchObject({ rebuilt: 0, givenUp: 0 });
});

test('entries that wait now and then, and hand-outs, begin the silence anew', async () => {
  let nth = 0;
  const seen = watch({ countWaiting: async () => (++nth % 2 === 0 ? 0 : 3) });
  await vi.waitFor(() => expect(seen.looks).toBeGreaterThan(MANY), { timeout: 20_000 });
  expect(seen.rebuilt).toBe(0);
  let handOuts = 0;
  const other = watch({ countWaiting: async () => 3, handOuts: () => ++handOuts });
  await vi.waitFor(() => expect(other.looks).toBeGreaterThan(MANY), { timeout: 20_000 });
  expect(other.rebuilt).toBe(0);
});

test('after a hand-out a later silence rebuilds again instead of giving up', async () => {
  const seen = watch();
  await vi.waitFor(() => expect(seen.rebuilt).toBe(1), { timeout: 10_000 });
  seen.handOuts += 1;
  await vi.waitFor(() => expect(seen.rebuilt).toBe(2), { timeout: 10_000 });
  expect(seen.givenUp).toBe(0);
});
