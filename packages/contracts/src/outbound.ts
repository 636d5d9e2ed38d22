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
