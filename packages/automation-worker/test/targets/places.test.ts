/** How many at once, and who waits how long. */
import { setTimeout as pass } from 'node:timers/promises';
import { describe, expect, test } from 'vitest';
import { expectWait, type Place, Places } from '../../src/targets/places.js';
import { Waiting } from '../../src/targets/waiting.js';

const NONE: readonly AbortSignal[] = [];

async function enterAll(places: Places, count: number): Promise<Place[]> {
  const entered = await Promise.all(Array.from({ length: count }, () => places.enter(NONE)));
  return entered.map((one) => {
    if (one.kind !== 'place') throw new Error(`no place: ${one.kind}`);
    return one;
  });
}

describe('the expected wait', () => {
  test('is nothing while nothing is known, or nobody is ahead', () => {
    expect(expectWait({ ahead: 100, places: 1, lastMs: [] })).toBe(0);
    expect(expectWait({ ahead: 0, places: 1, lastMs: [60_000], oldestMs: 60_000 })).toBe(0);
  });

  test('is the mean of the last sends for each of those ahead, shared by the places', () => {
    expect(expectWait({ ahead: 10, places: 5, lastMs: [100, 300] })).toBe(400);
  });

  test('counts the age of the oldest send in flight as one more', () => {
    expect(expectWait({ ahead: 10, places: 5, lastMs: [100, 300], oldestMs: 800 })).toBe(800);
    expect(expectWait({ ahead: 10, places: 5, lastMs: [], oldestMs: 800 })).toBe(1_600);
  });

  test('grows with those ahead, with each duration and with the age, and falls with the places', () => {
    let seed = 7;
    const next = (max: number): number => {
      seed = (seed * 48_271) % 2_147_483_647;
      return 1 + (seed % max);
    };
    for (let nth = 0; nth < 1_000; nth++) {
      const lastMs = Array.from({ length: next(10) }, () => next(10_000));
      const given = { ahead: next(500), places: next(100), lastMs, oldestMs: next(60_000) };
      const ms = expectWait(given);
      const [first = 0, ...others] = lastMs;
      expect(ms).toBeGreaterThan(0);
      expect(expectWait({ ...given, ahead: given.ahead + 1 })).toBeGreaterThan(ms);
      expect(expectWait({ ...given, oldestMs: given.oldestMs + 1 })).toBeGreaterThan(ms);
      expect(expectWait({ ...given, lastMs: [first + 1, ...others] })).toBeGreaterThan(ms);
      expect(expectWait({ ...given, places: given.places + 1 })).toBeLessThan(ms);
      const longest = Math.max(given.oldestMs, ...lastMs);
      expect(ms).toBeLessThanOrEqual((given.ahead * longest) / given.places);
    }
  });
});

describe('the places', () => {
  test('are no more than there are; the next one is for who came first', async () => {
    const places = new Places(2, new Waiting());
    const [one, other] = await enterAll(places, 2);
    const order: string[] = [];
    const third = enterAll(places, 1).then(([place]) => (order.push('third'), place));
    const fourth = enterAll(places, 1).then(([place]) => (order.push('fourth'), place));
    expect([places.sending, places.queued]).toEqual([2, 2]);
    one?.giveBack();
    const place = await third;
    expect([places.sending, places.queued]).toEqual([2, 1]);
    place?.giveBack();
    await fourth;
    expect(order).toEqual(['third', 'fourth']);
    expect([places.sending, places.queued]).toEqual([2, 0]);
    other?.giveBack();
    expect(places.sending).toBe(1);
  });

  test('that are free are given to a crowd that comes at once, however long sends take', async () => {
    const places = new Places(50, new Waiting());
    const first = await enterAll(places, 50);
    await pass(1_200); // that is what a send takes here
    for (const place of first) place.giveBack();
    expect((await enterAll(places, 50)).length).toBe(50);
  });

  test('that are all taken are waited for two seconds at most, and whoever left takes none', async () => {
    const places = new Places(1, new Waiting());
    const [first] = await enterAll(places, 1);
    expect(await places.enter(NONE)).toEqual({ kind: 'busy' });
    expect(places.queued).toBe(0);
    first?.giveBack();
    expect((await enterAll(places, 1)).length).toBe(1);
    expect(places.sending).toBe(1);
  });

  test('are not waited for at all when the send in flight is old and others are ahead', async () => {
    const places = new Places(1, new Waiting());
    const [hanging] = await enterAll(places, 1);
    expect(await places.enter(NONE)).toEqual({ kind: 'busy' }); // it is two seconds old now
    const ahead = places.enter(NONE);
    const late = places.enter(NONE);
    expect(await Promise.race([late.then(() => 'late'), ahead.then(() => 'ahead')])).toBe('late');
    expect(await late).toEqual({ kind: 'busy' });
    hanging?.giveBack();
    expect(await ahead).toMatchObject({ kind: 'place' });
  });

  test('can become fewer and more while they are in use', async () => {
    const places = new Places(3, new Waiting());
    const [one, two, three] = await enterAll(places, 3);
    places.resize(1);
    const next = enterAll(places, 1);
    one?.giveBack();
    two?.giveBack();
    const state = await Promise.race([next.then(() => 'entered'), pass(100, 'waiting')]);
    expect(state).toBe('waiting');
    three?.giveBack();
    expect((await next).length).toBe(1);
    places.resize(2);
    expect((await enterAll(places, 1)).length).toBe(1);
    expect(places.sending).toBe(2);
  });

  test('are left by whoever is called away or sent back, at once', async () => {
    const waiting = new Waiting();
    const places = new Places(1, waiting);
    await enterAll(places, 1);
    const away = new AbortController();
    const called = places.enter([away.signal]);
    const sent = places.enter(NONE);
    away.abort();
    expect(await called).toEqual({ kind: 'called_away' });
    const block = { by: 'held', why: 'answered 429', inMs: 5 } as const;
    waiting.sendBack(block);
    expect(await sent).toEqual({ kind: 'sent_back', block });
    expect(await places.enter([away.signal])).toEqual({ kind: 'called_away' });
  });
});
