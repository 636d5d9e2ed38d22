import { z } from 'zod';

/** Any value JSON can carry. Outputs, payloads and details are of this type and nothing wider. */
export type Json = null | boolean | number | string | Json[] | { [key: string]: Json };

/**
 * Accepts any JSON value that is there. What crosses a boundary has been through JSON.parse and a bound on its depth (codec.ts of wire, body
 * limits of HTTP), so its inside is not looked at again: walking a large value by schema costs many times its parsing.
 */
export const jsonSchema = z.unknown().refine((value) => value !== undefined, 'is missing') as unknown as z.ZodType<Json>;

/** Accepts any JSON object; its fields are not looked at, for the same reason. */
export const jsonObjectSchema = z.custom<Record<string, Json>>(
  (value) => typeof value === 'object' && value !== null && !Array.isArray(value),
  'must be an object',
);

const YEAR = { first: 1970, last: 9999 } as const;

/** An instant: RFC 3339 text, from 1970 to 9999 in UTC, as Postgres `timestamptz` and `Date.toISOString()` can both give it back. */
export const instantSchema = z.iso.datetime({ offset: true }).refine((text) => {
  const year = new Date(text).getUTCFullYear();
  return year >= YEAR.first && year <= YEAR.last;
}, `must lie between ${YEAR.first} and ${YEAR.last}`);
