import { randomInt } from 'node:crypto';
import { scaled } from './scaled.js';

/**
 * The seeds a file is run with: always the same one in `npm test`; in `pnpm prove` ten, or as many as `--seeds 25` says, drawn anew each time; `--seed 123`
 * asks for that one. They stand in the titles of the tests.
 */
export function seeds(): readonly number[] {
  const only = process.env['ONWARD_SEED'];
  if (only) return [Number(only)];
  const count = Number(process.env['ONWARD_SEEDS'] ?? scaled(0, 10));
  return count === 0 ? [1] : Array.from({ length: count }, () => randomInt(2 ** 31));
}
