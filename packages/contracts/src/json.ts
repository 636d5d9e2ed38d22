import { z } from 'zod';

/** Any value JSON can carry. Outputs, payloads and details are of this type and nothing wider. */
export type Json = null | boolean | number | string | Json[] | { [key: string]: Json };

/** Accepts any JSON value. Depth and size are the transport's business (codec.ts of wire, body limits of HTTP). */
export const jsonSchema: z.ZodType<Json> = z.json() as z.ZodType<Json>;

/** An instant: RFC 3339 text in UTC, as Postgres `timestamptz` and `Date.toISOString()` give it. */
export const instantSchema = z.iso.datetime({ offset: true });
