import { z } from 'zod';

/**
 * A finished outbound request, frozen with the intent and the same in every attempt of the step.
 * Times are in ms and sizes in bytes. `timeoutMs` bounds the whole exchange, from dialling to the last byte of the body.
 */
export const outboundRequestSchema = z.strictObject({
  method: z.enum(['GET', 'POST', 'PUT', 'PATCH', 'DELETE', 'HEAD']),
  url: z.string().max(8_192),
  headers: z.record(z.string(), z.string()),
  body: z.string().nullable(),
  timeoutMs: z.number().int().positive(),
  maxResponseBytes: z.number().int().positive(),
  followRedirects: z.boolean(),
});
export type OutboundRequest = z.infer<typeof outboundRequestSchema>;

/**
 * What a placeholder in a request stands for, on its way to the worker that sends it, sealed (sealed-secrets.ts of wire). `name` is what is
 * shown where the value would stand; `origins` (as `URL.origin` has them) are the only ones it may go to.
 */
const secretValueSchema = z.strictObject({
  placeholder: z.string().regex(/^[A-Za-z0-9]{32,100}$/),
  name: z.string().max(300),
  value: z.string(),
  origins: z.array(z.string()),
});
export const secretValuesSchema = z.array(secretValueSchema);
export type SecretValue = z.infer<typeof secretValueSchema>;
