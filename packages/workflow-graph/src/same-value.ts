import type { Json } from '@onward/contracts/json';

/**
 * When two JSON values are the same to a condition.
 *
 * Texts, numbers and booleans are compared as text: a number or boolean as its JSON text, a text as it stands. Nothing is trimmed and no
 * text is read as a number, so "007" is not "7", "10.0" is not 10, and ids longer than a number can hold keep every digit. `ignoreCase`
 * compares in lower case (Unicode's own mapping, no language's rules). Null is the same as null only. Lists are the same
 * member by member, objects key by key (in any order, keys always exactly).
 */

/** The text of a text, number or boolean; null for null, a list or an object, which have none. */
export function textOf(value: Json, ignoreCase: boolean): string | null {
  if (value === null || typeof value === 'object') return null;
  const text = typeof value === 'string' ? value : String(value);
  return ignoreCase ? text.toLowerCase() : text;
}

/** Goes through both without recursion: JSON nested to any depth costs no stack. */
export function areSame(left: Json, right: Json, ignoreCase: boolean): boolean {
  const pairs: [Json, Json][] = [[left, right]];
  for (let pair = pairs.pop(); pair !== undefined; pair = pairs.pop()) {
    const [a, b] = pair;
    if (a === null || b === null || typeof a !== 'object' || typeof b !== 'object') {
      if (a === null || b === null ? a !== b : !areSameText(a, b, ignoreCase)) return false;
      continue;
    }
    if (Array.isArray(a) !== Array.isArray(b)) return false;
    const keys = Object.keys(a);
    if (keys.length !== Object.keys(b).length) return false;
    for (const key of keys) {
      if (!Object.hasOwn(b, key)) return false;
      pairs.push([(a as Record<string, Json>)[key] ?? null, (b as Record<string, Json>)[key] ?? null]);
    }
  }
  return true;
}

function areSameText(a: Json, b: Json, ignoreCase: boolean): boolean {
  const text = textOf(a, ignoreCase);
  return text !== null && text === textOf(b, ignoreCase);
}
