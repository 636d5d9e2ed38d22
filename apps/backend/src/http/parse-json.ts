import type { Json } from '@onward/contracts/json';
import { findJsonFault } from './json-fault.js';
import { Problem } from './problem.js';

export const MAX_DEPTH = 32;
/** In any one object. How many there are in all is bounded by the size of the body. */
export const MAX_KEYS = 1_000;

/** A half of a surrogate pair without the other: no text in any encoding, and Postgres refuses it in jsonb. */
const LONE_SURROGATE = /\p{Surrogate}/u;

/**
 * Reads a JSON text from outside into plain data that is safe to keep and to merge.
 * Refuses what is not JSON (with line and column), nesting deeper than 32, objects of more than 1,000 keys, a key named `__proto__`
 * (assigning it elsewhere would change what an object inherits), and texts that Postgres cannot keep. A key such as `constructor` is
 * an ordinary own key and stays. Throws Problem.
 */
export function parseJson(text: string): Json {
  let parsed: Json;
  try {
    parsed = JSON.parse(text) as Json;
  } catch {
    const fault = findJsonFault(text);
    throw new Problem('malformed', fault ? `The body is not JSON: line ${fault.line}, column ${fault.column} has ${fault.found}` : 'The body is not JSON');
  }
  checkJson(parsed);
  return parsed;
}

/** Walks without recursion, so that depth is refused here and not by the call stack. */
function checkJson(root: Json): void {
  const open: { value: Json; path: string; depth: number }[] = [{ value: root, path: '', depth: 1 }];
  for (let next = open.pop(); next; next = open.pop()) {
    const { value, path, depth } = next;
    if (typeof value === 'string') checkText(value, path);
    if (typeof value !== 'object' || value === null) continue;
    if (depth > MAX_DEPTH) throw refusal(path, `is nested deeper than ${MAX_DEPTH} levels`);
    if (Array.isArray(value)) {
      value.forEach((item, index) => open.push({ value: item, path: below(path, String(index)), depth: depth + 1 }));
      continue;
    }
    const entries = Object.entries(value);
    if (entries.length > MAX_KEYS) throw refusal(path, `has more than ${MAX_KEYS.toLocaleString('en')} keys`);
    for (const [key, item] of entries) {
      if (key === '__proto__') throw refusal(below(path, key), 'is not accepted as a key');
      checkText(key, path);
      open.push({ value: item, path: below(path, key), depth: depth + 1 });
    }
  }
}

function checkText(text: string, path: string): void {
  if (text.includes('\0')) throw refusal(path, 'holds a NUL character, which cannot be kept');
  if (LONE_SURROGATE.test(text)) throw refusal(path, 'holds half of a surrogate pair, which is no character');
}

function below(path: string, name: string): string {
  return path.length > 200 ? path : path === '' ? name : `${path}.${name}`;
}

function refusal(path: string, message: string): Problem {
  return new Problem('malformed', `${path === '' ? 'The body' : path} ${message}`, { errors: [{ path, message }] });
}
