import { z } from 'zod';
import { FAILURES, type FailureCode } from './errors.js';
import { instantSchema, jsonSchema } from './json.js';
import { blockedSchema } from './targets.js';

const failureCodes = Object.keys(FAILURES) as [FailureCode, ...FailureCode[]];

/** What went wrong with a step. `message` is shown to people; `retryAfterMs` is the target's own wish (RFC 9110 §10.2.3), in ms. */
export const failureSchema = z.strictObject({
  code: z.enum(failureCodes),
  message: z.string().max(2_000),
  retryAfterMs: z.number().int().nonnegative().optional(),
  detail: jsonSchema.optional(),
});
export type Failure = z.infer<typeof failureSchema>;

/**
 * What one try of a step came to. Data, never an exception.
 * - `done`: the effect happened; leave by `port` (default `next`).
 * - `wait`: rest until `dueAt`.
 * - `suspended`: rest until somebody resolves `key`, or until `dueAt` when one is given.
 * - `failed`: the effect did not happen; whether another try is worth it stands with the code in FAILURES.
 * - `uncertain`: it may or may not have happened (a send without an answer that can be trusted).
 * - `not_sent`: an intent was recorded and no byte left; the same attempt is opened again later and nothing is spent. With `blocked` the run
 *   waits for its target, without it is due again at once.
 */
export const outcomeSchema = z.discriminatedUnion('kind', [
  z.strictObject({
    kind: z.literal('done'),
    output: jsonSchema,
    port: z.string().max(64).optional(),
    /** Something a person should see beside a success, such as "body is not the JSON it claims to be". */
    warnings: z.array(z.string().max(500)).max(20).optional(),
    /** The effect was left out on purpose (`skipped`) or cannot be confirmed (`uncertain`); shown on the step. */
    mark: z.enum(['skipped', 'uncertain', 'unknown_node']).optional(),
  }),
  z.strictObject({ kind: z.literal('wait'), dueAt: instantSchema, why: z.string().max(500) }),
  z.strictObject({ kind: z.literal('suspended'), key: z.string().max(200), dueAt: instantSchema.optional(), why: z.string().max(500) }),
  z.strictObject({ kind: z.literal('failed'), failure: failureSchema }),
  z.strictObject({ kind: z.literal('uncertain'), failure: failureSchema }),
  z.strictObject({ kind: z.literal('not_sent'), why: z.string().max(500), blocked: blockedSchema.optional() }),
]);
export type Outcome = z.infer<typeof outcomeSchema>;

/** Builds a `failed` outcome. */
export function failed(code: FailureCode, message: string, extra: Pick<Failure, 'retryAfterMs' | 'detail'> = {}): Extract<Outcome, { kind: 'failed' }> {
  return { kind: 'failed', failure: { code, message: message.slice(0, 2_000), ...extra } };
}
