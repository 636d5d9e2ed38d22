import { z } from 'zod';
import { ERRORS, type ErrorCode } from './errors.js';
import { jsonObjectSchema } from './json.js';
import { MAIL_PATTERNS } from './mail.js';
import { MAX_TARGET_REPORTS, targetReportSchema } from './targets.js';
import { RUNTIME_PATTERNS, type RuntimePattern } from './patterns.js';

/** The frame is transport: items of the 13, in order for one run; the runs of one frame know nothing of each other. */
export const FRAME_PATTERN = 'automation.runtime.frame';
export const FRAME_VERSION = 1;
/** The largest message on the wire in either direction, in bytes. A sender checks before it sends. */
export const MAX_MESSAGE_BYTES = 4 * 1024 * 1024;
export const MAX_ITEMS_PER_RUN = 8;
export const MAX_RUNS_PER_FRAME = 500;
/** Steps that may follow the items of a frame, each run's. */
export const MAX_FOLLOWING = 100;

const runtimePatterns = Object.keys(RUNTIME_PATTERNS) as [RuntimePattern, ...RuntimePattern[]];
const errorCodes = Object.keys(ERRORS) as [ErrorCode, ...ErrorCode[]];

/** An error of the catalogue as it crosses the wire. */
export const rpcErrorSchema = z.strictObject({ code: z.enum(errorCodes), detail: z.string() });
export type RpcError = z.infer<typeof rpcErrorSchema>;

/** One call inside a frame. `data` is checked against the pattern's own request schema. */
const frameItemSchema = z.strictObject({ pattern: z.enum(runtimePatterns), data: jsonObjectSchema });
export type FrameItem = { pattern: RuntimePattern; data: Record<string, unknown> };

/** What a worker says of itself with every renewal. */
export const workerGaugesSchema = z.strictObject({
  workerId: z.uuid(),
  inFlight: z.number().int().nonnegative(),
  targets: z.array(targetReportSchema).max(MAX_TARGET_REPORTS).default([]),
});
export type WorkerGauges = z.infer<typeof workerGaugesSchema>;

export const frameSchema = z.strictObject({
  v: z.literal(FRAME_VERSION),
  worker: workerGaugesSchema.optional(),
  /**
   * With how many steps at most the backend may go on by itself with each run, after its items and while it performs them itself: `run.advance`,
   * `attempt.create` and `action.execute` once more for each, and a commit of its own for each. It may go on with fewer. Where it may go on, a
   * step that it performs and that brings the run to rest is closed in the commit that records it: `run.advance` to an end, or `run.wait`.
   */
  following: z.number().int().nonnegative().max(MAX_FOLLOWING).optional(),
  runs: z.array(z.strictObject({ items: z.array(frameItemSchema).min(1).max(MAX_ITEMS_PER_RUN) })).max(MAX_RUNS_PER_FRAME),
});
export type Frame = { v: typeof FRAME_VERSION; worker?: WorkerGauges; following?: number; runs: { items: FrameItem[] }[] };

const repliesSchema = z.array(z.union([z.strictObject({ reply: jsonObjectSchema }), z.strictObject({ error: rpcErrorSchema })]));

/**
 * The answer, run by run and item by item, in the order sent. After a refusal or a rest the items left are not tried and are missing;
 * an item that threw is an `error` and ends its run's items too. `followed`: likewise, of the last step that followed, or of
 * the call alone that closed the last one, where there was either.
 */
export const frameReplySchema = z.strictObject({
  v: z.literal(FRAME_VERSION),
  /** How many workers there are; answered to a frame in which a worker speaks of itself. */
  workers: z.number().int().positive().optional(),
  runs: z.array(z.strictObject({ replies: repliesSchema, followed: repliesSchema.optional() })),
});
export type FrameReply = z.infer<typeof frameReplySchema>;

/** Every call the backend's TCP side answers: name → request and reply schema. */
export const PATTERNS = {
  ...RUNTIME_PATTERNS,
  ...MAIL_PATTERNS,
  [FRAME_PATTERN]: { request: frameSchema, reply: frameReplySchema },
} as const;
export type Pattern = keyof typeof PATTERNS;
export type PatternRequest<P extends Pattern> = z.infer<(typeof PATTERNS)[P]['request']>;
export type PatternReply<P extends Pattern> = z.infer<(typeof PATTERNS)[P]['reply']>;
