import type { Json } from '@onward/contracts/json';
import type { ConditionConfig, ConditionTest } from './graph.js';
import { areSame, textOf } from './same-value.js';

/**
 * Tests conditions on a scope (the values a run can see). Never throws for any JSON, and for the same input exactly one of an operator
 * and its `not_` counterpart holds: an absent value has no text, so it equals and contains nothing, and both negatives hold for it.
 *
 * - `equals`: the same by same-value.ts: exact text, after numbers and booleans became their JSON text; case counts unless `ignoreCase`.
 * - `contains`: a text, number or boolean holds the operand's text; a list has a member that equals the operand (a tag is never matched
 *   by part of another). Nothing contains an empty operand, and an object contains nothing.
 * - `exists`: there is a value, by the table at `hasValue`.
 */

/** What a test looked at: the value then found, null when there was none. */
export type Seen = { field: string; value: Json };

/**
 * The value at a dot path, or undefined. Follows own, enumerable data properties and list indices only: never the prototype, a
 * getter, or a list's `length`.
 */
export function lookUp(scope: unknown, path: string): Json | undefined {
  let value = scope;
  for (const name of path.split('.')) {
    if (typeof value !== 'object' || value === null) return undefined;
    const property = Object.getOwnPropertyDescriptor(value, name);
    if (!property?.enumerable) return undefined;
    value = property.value;
  }
  return value as Json | undefined;
}

/**
 * Does the value exist?
 *
 * | value | exists |
 * |---|---|
 * | absent, null | no |
 * | `""`, blank text | no |
 * | `[]`, `{}` | no |
 * | `0`, `false` | yes |
 * | `"null"`, `"undefined"`, any other text | yes |
 * | any other list or object | yes |
 */
export function hasValue(value: Json | undefined): boolean {
  if (value === undefined || value === null) return false;
  if (typeof value === 'string') return value.trim() !== '';
  if (typeof value === 'object') return Object.keys(value).length > 0;
  return true;
}

/** One test on the value found at its field. */
export function testValue({ op, value: operand = null, ignoreCase = false }: Omit<ConditionTest, 'field'>, value: Json | undefined): boolean {
  switch (op) {
    case 'equals':
      return areSame(value ?? null, operand, ignoreCase);
    case 'not_equals':
      return !areSame(value ?? null, operand, ignoreCase);
    case 'contains':
      return holds(value ?? null, operand, ignoreCase);
    case 'not_contains':
      return !holds(value ?? null, operand, ignoreCase);
    case 'exists':
      return hasValue(value);
    case 'not_exists':
      return !hasValue(value);
    default:
      return neverMet(op);
  }
}

export function evaluateTest(test: ConditionTest, scope: unknown): { result: boolean; seen: Seen } {
  const value = lookUp(scope, test.field);
  return { result: testValue(test, value), seen: { field: test.field, value: value ?? null } };
}

/** All tests are made, also when the first decides: `seen` has one entry a test, in their order. */
export function evaluateCondition(config: ConditionConfig, scope: unknown): { result: boolean; seen: Seen[] } {
  const tests = config.tests.map((test) => evaluateTest(test, scope));
  return {
    result: combine(
      config,
      tests.map((test) => test.result),
    ),
    seen: tests.map((test) => test.seen),
  };
}

/**
 * Decides again from what was seen then. Null when `seen` is not the record of these tests.
 */
export function evaluateSeen(config: ConditionConfig, seen: readonly Seen[]): boolean | null {
  if (seen.length !== config.tests.length) return null;
  const results: boolean[] = [];
  for (const [i, test] of config.tests.entries()) {
    const entry = seen[i];
    if (entry?.field !== test.field) return null;
    results.push(testValue(test, entry.value));
  }
  return combine(config, results);
}

function combine({ match = 'all' }: ConditionConfig, results: boolean[]): boolean {
  return match === 'any' ? results.some(Boolean) : results.every(Boolean);
}

function holds(value: Json, operand: Json, ignoreCase: boolean): boolean {
  if (operand === null || operand === '') return false;
  if (Array.isArray(value)) return value.some((member) => areSame(member, operand, ignoreCase));
  const text = textOf(value, ignoreCase);
  const part = textOf(operand, ignoreCase);
  return text !== null && part !== null && text.includes(part);
}

/** An operator this version does not know holds for nothing; schemas refuse it long before. */
function neverMet(_op: never): false {
  return false;
}
