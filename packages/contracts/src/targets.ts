import { z } from 'zod';

/**
 * A target is what outbound requests go to: scheme, host and port, normalised as `URL.origin` has it (`https://api.example.com`).
 * The backend keeps one row for each; every worker keeps a breaker, a limit on how many it sends at once, and a share of the rate.
 */
export const originSchema = z.string().max(300);

/** The key on which a run waits for a blocked target. */
export function targetKey(origin: string): string {
  return `target:${origin}`;
}

/** What a worker must keep to at a target; travels with every request handed over. Null: no limit of its own. */
export const targetLimitsSchema = z.strictObject({
  origin: originSchema,
  /** Requests a second, all workers together. */
  ratePerSecond: z.number().positive().nullable(),
  /** Requests at the same time, in one worker. */
  maxConcurrent: z.number().int().positive().nullable(),
  /** Rises whenever the target is found well or is closed by hand: a breaker of an earlier number starts anew, and what it says is stale. */
  breakerNo: z.number().int().nonnegative(),
});
export type TargetLimits = z.infer<typeof targetLimitsSchema>;

/**
 * Why a request was not sent now. `breaker`: the target failed too often. `rate`: the next free instant is too far. `busy`: too many are
 * being sent to it already. `held`: the target itself asked to wait (Retry-After, RFC 9110 §10.2.3).
 */
export const BLOCKS = ['breaker', 'rate', 'busy', 'held'] as const;
export const blockedSchema = z.strictObject({
  origin: originSchema,
  by: z.enum(BLOCKS),
  /** When it is worth looking again, in ms from now. */
  inMs: z.number().int().nonnegative(),
  breakerNo: z.number().int().nonnegative(),
});
export type Blocked = z.infer<typeof blockedSchema>;

export const BREAKER_STATES = ['closed', 'open', 'half_open'] as const;
export type BreakerState = (typeof BREAKER_STATES)[number];

/** How a worker finds a target; told with every renewal. */
export const targetReportSchema = z.strictObject({
  origin: originSchema,
  breaker: z.enum(BREAKER_STATES),
  breakerNo: z.number().int().nonnegative(),
  /** While the breaker is open: when it lets a probe through, in ms from now. */
  probesInMs: z.number().int().nonnegative().nullable(),
  sending: z.number().int().nonnegative(),
  queued: z.number().int().nonnegative(),
});
export type TargetReport = z.infer<typeof targetReportSchema>;
/** A worker tells of so many targets at once: those that are not well first, then those with most in hand. */
export const MAX_TARGET_REPORTS = 100;
