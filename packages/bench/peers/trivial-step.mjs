/** The work of a step, the same for all: a small state of about 100 bytes that each step changes a little. */
export const STEPS = 10;
export const trivialStep = (state, nth) => ({ ...state, n: (state.n ?? 0) + 1, [`s${nth % 3}`]: 'value' });
export const firstState = { hello: 'world' };

/** Does `work` for each, `limit` at a time. */
export async function inFlight(items, limit, work) {
  let next = 0;
  const lane = async () => {
    while (next < items.length) {
      const item = items[next];
      next += 1;
      await work(item);
    }
  };
  await Promise.all(Array.from({ length: Math.min(limit, items.length) }, lane));
}

/** The parts of a list, `size` each. */
export function* batches(items, size) {
  for (let at = 0; at < items.length; at += size) yield items.slice(at, at + size);
}
