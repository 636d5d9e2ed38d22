import { Drop } from 'liquidjs';
import type { Json } from '@onward/contracts/json';
import { TemplateError } from './template-error.js';

/**
 * A value as people read it: absent and null are empty, as are numbers that are none; 0 is "0" and false is "false"; lists are joined by
 * ", "; objects are their JSON text. The words undefined, null, NaN and [object Object] are never made.
 */
export function valueText(value: unknown): string {
  switch (typeof value) {
    case 'string':
      return value.replaceAll('\0', '');
    case 'number':
      return Number.isFinite(value) ? String(value) : '';
    case 'boolean':
    case 'bigint':
      return String(value);
    case 'object':
      if (value === null || value instanceof Drop) return '';
      return Array.isArray(value) ? value.map(valueText).join(', ') : JSON.stringify(value);
    default:
      return '';
  }
}

/** The JSON text of a value, null for one that has none. Throws TemplateError, as `checkSize`. */
export function jsonText(value: unknown, maxCharacters: number): string {
  checkSize(value, maxCharacters);
  return JSON.stringify(value) ?? 'null';
}

/**
 * Throws TemplateError when the texts in a value come to more than the limit. Filters make lists that hold one long text many times over,
 * so this is looked at before a text is made of them, and no further than the limit.
 */
export function checkSize(value: unknown, maxCharacters: number): void {
  if (typeof value !== 'object' && typeof value !== 'string') return;
  let characters = 0;
  const count = (part: unknown): void => {
    characters += typeof part === 'string' ? part.length : 1;
    if (characters > maxCharacters) throw new TemplateError(`A value is longer than ${maxCharacters.toLocaleString('en')} characters`);
    if (typeof part !== 'object' || part === null || part instanceof Drop) return;
    for (const [name, member] of Object.entries(part)) {
      if (!Array.isArray(part)) characters += name.length;
      count(member);
    }
  };
  count(value);
}

/** What JSON data inherits while a template looks at it: nothing but its own text, for filters that take a text and are given an object. */
const TEXTUAL: object = Object.create(null, {
  [Symbol.toPrimitive]: {
    value(this: unknown): string {
      return JSON.stringify(this);
    },
  },
});

/** A copy of JSON data that has no property it does not own, `constructor` and `__proto__` included. */
export function bare(value: Json | undefined): unknown {
  if (typeof value !== 'object' || value === null) return value;
  if (Array.isArray(value)) return value.map(bare);
  const copy = Object.create(TEXTUAL) as Record<string, unknown>;
  for (const [key, member] of Object.entries(value)) copy[key] = bare(member);
  return copy;
}
