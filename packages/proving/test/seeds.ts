import { randomInt } from 'node:crypto';
import { scaled } from './scaled.js';

/**
 * The seeds a file is run with: one in `npm test`, ten in `pnpm prove`, or as many as `pnpm prove --seeds 25` says; `--seed 123` asks for that one.
 * They are drawn anew each time and stand in the titles of the tests.
 */
export function seeds(): readonly number[] {
  const only = process.env['ONWARD_SEED'];
  if (only) return [Number(only)];
  const count = Number(process.env['ONWARD_SEEDS'] ?? scaled(1, 10));
  return Array.from({ length: count }, () => randomInt(2 ** 31));
}
