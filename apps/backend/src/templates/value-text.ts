import { Drop } from 'liquidjs';
import type { Json } from '@onward/contracts/json';

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
