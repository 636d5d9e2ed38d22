/**
 * Choices drawn from a seed: the same seed draws the same choices in the same order. What real processes do in between is not repeated by it.
 */
export type Draw = {
  /** Both ends included. */
  integer(from: number, to: number): number;
  pick<Value>(values: readonly Value[]): Value;
};

/** `seed`: a whole number. mulberry32: https://gist.github.com/tommyettinger/46a874533244883189143505d203312c */
export function createDraw(seed: number): Draw {
  let state = seed >>> 0;
  const next = (): number => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
  const integer = (from: number, to: number): number => from + Math.floor(next() * (to - from + 1));
  return {
    integer,
    pick: (values) => {
      if (values.length === 0) throw new Error('There is nothing to pick from');
      return values[integer(0, values.length - 1)] as (typeof values)[number];
    },
  };
}
