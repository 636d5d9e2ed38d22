import { z } from 'zod';
import { instantSchema } from './json.js';
import { outboundRequestSchema } from './outbound.js';
import { outcomeSchema } from './outcome.js';
import { planSchema } from './plan.js';
import { targetLimitsSchema } from './targets.js';

/**
 * The 13 calls of the runtime: name → request and reply.
 *
 * Every call after `prepare` names the run, its claim, the epoch of that claim and the step (`seq`) it speaks of. Inside a
 * frame (frame.ts) an item that follows a `prepare` or an `advance` leaves out epoch and seq and takes them from its answer.
 * A refusal is a reply (`kind: 'refused'`), never an exception; what is thrown is one of errors.ts and means "unknown".
 */

/** The largest time a call may take, in ms, unless AUTOMATIONS_BACKEND_RPC_TIMEOUT_MS says otherwise. */
export const RPC_TIMEOUT_MS = 75_000;

export const RUN_STATES = ['pending', 'running', 'waiting', 'awaiting_approval', 'retrying', 'succeeded', 'failed', 'dead_lettered', 'cancelled'] as const;
export type RunState = (typeof RUN_STATES)[number];

/** The verbs that close or suspend a step; `judge` names the right one for an outcome. */
export const VERBS = ['advance', 'wait', 'retry', 'fail', 'dead-letter'] as const;
export type Verb = (typeof VERBS)[number];

/**
 * Why a call was refused.
 * - `unknown_run`: no such run (it was deleted).
 * - `stale_claim`: the run is under another claimId; the wake-up is out of date.
 * - `stale_epoch`: somebody claimed the run after the caller did.
 * - `stale_seq`: the run stands at another step.
 * - `lower_call`: a later hand-out of the same job has claimed the run.
 * - `not_running`: the run is not being moved by anybody now.
 * - `wrong_verb`: the backend judges the recorded outcome otherwise; `verb` is the right one, which the caller sends next.
 * - `no_attempt`: the call speaks of an attempt that does not exist or has no outcome yet.
 * - `not_at_end`: the run does not stand on an end node.
 */
export const REFUSALS = [
  'unknown_run',
  'stale_claim',
  'stale_epoch',
  'stale_seq',
  'lower_call',
  'not_running',
  'wrong_verb',
  'no_attempt',
  'not_at_end',
] as const;
export type RefusalReason = (typeof REFUSALS)[number];

const refusedSchema = z.strictObject({ kind: z.literal('refused'), reason: z.enum(REFUSALS), verb: z.enum(VERBS).optional() });

/** Where the run has come to rest: nobody needs to move it now. */
const restsSchema = z.strictObject({ kind: z.literal('rests'), state: z.enum(RUN_STATES), why: z.string().nullable(), dueAt: instantSchema.nullable() });
export type Rests = z.infer<typeof restsSchema>;
export type Refused = z.infer<typeof refusedSchema>;

const runId = z.uuid();
const claimId = z.uuid();
const epoch = z.number().int().positive();
const seq = z.number().int().positive();
const n = z.number().int().positive();

/** Which step of which claim a call speaks of. Epoch and seq may be left out only inside a frame. */
const stepRef = { runId, claimId, epoch: epoch.optional(), seq: seq.optional() };

/** How often this step has failed or stayed uncertain before the attempt in hand. `judge` needs it. */
const tallySchema = z.strictObject({ failed: z.number().int().nonnegative(), uncertain: z.number().int().nonnegative() });
export type Tally = z.infer<typeof tallySchema>;

/** An attempt as the worker sees it. `outcome` is there when one was recorded before: then nothing is to be performed again. */
const attemptSchema = z.strictObject({
  kind: z.literal('attempt'),
  seq,
  n,
  node: z.string(),
  tally: tallySchema,
  outcome: outcomeSchema.nullable(),
});
export type AttemptReply = z.infer<typeof attemptSchema>;

const moved = z.discriminatedUnion('kind', [restsSchema, refusedSchema]);

export const RUNTIME_PATTERNS = {
  /**
   * Settle what is due, then give out the claim, or the same one again. `callId` is the hand-out number of the job, `handOutId` is made anew by
   * whoever was handed it and kept when the call is sent again. The same hand-out gets the same epoch, a later one (a higher number, or
   * an equal one of somebody else) raises it, a lower number is refused. With `renew` it only prolongs the lease of `epoch`.
   */
  'automation.runtime.run.prepare': {
    request: z.union([
      z.strictObject({ runId, claimId, callId: z.number().int().nonnegative(), handOutId: z.uuid() }),
      z.strictObject({ runId, claimId, renew: z.literal(true), epoch }),
    ]),
    reply: z.discriminatedUnion('kind', [
      z.strictObject({ kind: z.literal('claimed'), epoch, seq, node: z.string(), leaseMs: z.number().int().positive() }),
      z.strictObject({ kind: z.literal('renewed'), leaseMs: z.number().int().positive() }),
      /** The wake-up came early; look again in `inMs`. */
      z.strictObject({ kind: z.literal('not_due'), dueAt: instantSchema, inMs: z.number().int().nonnegative() }),
      /** The workflow is paused; resuming sends a new wake-up. */
      z.strictObject({ kind: z.literal('held') }),
      restsSchema,
      refusedSchema,
    ]),
  },
  /** The plan of the run's version (its nodes only when `nodes` is asked for), and whether everything its context names can still be read. */
  'automation.runtime.plan.get': {
    request: z.strictObject({ ...stepRef, nodes: z.boolean().optional() }),
    reply: z.discriminatedUnion('kind', [
      z.strictObject({ kind: z.literal('plan'), versionId: z.uuid(), plan: planSchema.optional() }),
      restsSchema,
      refusedSchema,
    ]),
  },
  /** Run an action the backend owns (its effect commits together with its outcome), or hand over a finished request to send. */
  'automation.runtime.action.execute': {
    request: z.strictObject({ ...stepRef, n: n.optional() }),
    reply: z.discriminatedUnion('kind', [
      z.strictObject({ kind: z.literal('outcome'), outcome: outcomeSchema }),
      /**
       * `secrets`: the values of the placeholders in the request with the origins each may go to, sealed for the holder of the shared
       * secret (sealed-secrets.ts of wire); missing when there are none.
       */
      z.strictObject({ kind: z.literal('send'), request: outboundRequestSchema, target: targetLimitsSchema, secrets: z.array(z.string()).max(2).optional() }),
      restsSchema,
      refusedSchema,
    ]),
  },
  /** The latest attempt of a step. */
  'automation.runtime.attempt.latest': {
    request: z.strictObject(stepRef),
    reply: z.discriminatedUnion('kind', [attemptSchema, refusedSchema]),
  },
  /** A durable attempt of the step the run stands on; the same one again while it is open. */
  'automation.runtime.attempt.create': {
    request: z.strictObject(stepRef),
    reply: z.discriminatedUnion('kind', [attemptSchema, restsSchema, refusedSchema]),
  },
  /** The attempt's result. The answer names the verb that the backend judges right. */
  'automation.runtime.attempt.update': {
    request: z.strictObject({ ...stepRef, n, outcome: outcomeSchema }),
    reply: z.discriminatedUnion('kind', [z.strictObject({ kind: z.literal('recorded'), verb: z.enum(VERBS) }), restsSchema, refusedSchema]),
  },
  /** Move the cursor along the outcome's port, passing structural nodes. Reaching an end commits the end. */
  'automation.runtime.run.advance': {
    request: z.strictObject(stepRef),
    reply: z.discriminatedUnion('kind', [z.strictObject({ kind: z.literal('advanced'), seq, node: z.string() }), restsSchema, refusedSchema]),
  },
  /** Store why and until when the run rests, from the recorded outcome; with `release`, give the run back as it stands. */
  'automation.runtime.run.wait': {
    request: z.strictObject({ ...stepRef, release: z.enum(['stopping']).optional() }),
    reply: moved,
  },
  /** The run ended well: only for a run that stands on an end node. */
  'automation.runtime.run.succeed': { request: z.strictObject(stepRef), reply: moved },
  /** The run ended for good with an error that no retry can cure. */
  'automation.runtime.run.fail': { request: z.strictObject(stepRef), reply: moved },
  /** The next retry time, chosen by the backend: exponential backoff with jitter, or the target's own wish when later. */
  'automation.runtime.run.retry': { request: z.strictObject(stepRef), reply: moved },
  /** The end of an exhausted run. */
  'automation.runtime.run.dead-letter': { request: z.strictObject(stepRef), reply: moved },
  /** Ask the backend to notify about the failure. A repeat changes nothing. */
  'automation.runtime.run.notify-failed': {
    request: z.strictObject(stepRef),
    reply: z.discriminatedUnion('kind', [z.strictObject({ kind: z.literal('notified'), sent: z.boolean() }), refusedSchema]),
  },
} as const;

export type RuntimePattern = keyof typeof RUNTIME_PATTERNS;
export type RequestOf<P extends RuntimePattern> = z.infer<(typeof RUNTIME_PATTERNS)[P]['request']>;
export type ReplyOf<P extends RuntimePattern> = z.infer<(typeof RUNTIME_PATTERNS)[P]['reply']>;
export type RuntimeReply = { [P in RuntimePattern]: ReplyOf<P> }[RuntimePattern];
