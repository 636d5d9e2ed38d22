import { isDeepStrictEqual } from 'node:util';
import type { Json } from '@onward/contracts/json';
import { MAX_ATTRIBUTES } from './contact-input.js';

type Attributes = Record<string, Json>;

/**
 * Attributes with changes merged in: a value replaces the one of its name, null removes it, others stay. `changed` names those that are
 * now different, in the order given; a value that equals the present one changes nothing. Answers null when there would be too many.
 */
export function mergeAttributes(present: Attributes, changes: Attributes): { attributes: Attributes; changed: string[] } | null {
  const merged = new Map(Object.entries(present));
  const changed: string[] = [];
  for (const [name, value] of Object.entries(changes)) {
    if (value === null ? !merged.has(name) : merged.has(name) && isDeepStrictEqual(merged.get(name), value)) continue;
    changed.push(name);
    if (value === null) merged.delete(name);
    else merged.set(name, value);
  }
  if (merged.size > MAX_ATTRIBUTES && changed.length > 0) return null;
  // fromEntries makes own properties whatever their names are.
  return { attributes: Object.fromEntries(merged), changed };
}
