import { failed } from '@onward/contracts/outcome';
import type { AttemptReply, ReplyOf, RequestOf } from '@onward/contracts/patterns';
import type { Attempt } from '../runs/attempt.entity.js';
import type { Version } from '../workflows/read-version.js';
import { attemptsOf, type Checkpoint, placeOf, refused, rests, type StepRef, writeAttempt } from './checkpoint.js';
import { endRun } from './end-run.js';
import { leaveAttempt } from './leave-attempt.js';
import { outcomeOf, tallyBefore, withOutcome } from './outcomes.js';
import { blank } from './pass-nodes.js';
import type { RuntimeKit } from './runtime-kit.js';

type Request = RequestOf<'automation.runtime.attempt.create'> & StepRef;
type Reply = ReplyOf<'automation.runtime.attempt.create'>;

/**
 * The attempt in hand of the step the run stands on: begun now, or as it was left.
 * - One with an outcome is given back with it: nothing is performed again.
 * - One left open, or not sent, is opened again under the same n: nothing had left.
 * - One left while `sending`, by a claim before this one, is `uncertain`: bytes may have left and nobody knows.
 */
export async function createAttempt(checkpoint: Checkpoint, request: Request, kit: RuntimeKit): Promise<Reply> {
  const place = placeOf(checkpoint, request);
  if (place !== 'live' && place !== 'repeat') return refused(place);
  const { run } = checkpoint;
  if (run.state !== 'running') return rests(checkpoint);
  const version = await checkpoint.group.reads.version(kit.versions, run.versionId);
  const attempts = await attemptsOf(checkpoint, run.seq);
  const begun = attempts.find(({ n }) => n === run.n);
  const type = version.compiled.node(run.node)?.type ?? 'unknown';
  const attempt = begun ? reopen(checkpoint, begun) : blank(checkpoint, run.seq, run.node, type, run.n);
  const opened = asLeft(checkpoint, version, attempt, attempts);
  if (run.isCancelAsked) {
    // Nothing new is begun; what was left without an outcome is recorded as such.
    if (begun && opened !== attempt) writeAttempt(checkpoint, opened);
    else await leaveAttempt(checkpoint);
    endRun(checkpoint, { move: 'cancel', reason: 'cancelled by request' }, kit);
    return rests(checkpoint);
  }
  if (opened !== begun) writeAttempt(checkpoint, opened);
  return replyOf(opened, attempts);
}

const LEFT = 'The worker ended between sending and recording; the target may or may not have acted';

/** The attempt as the claim before this one left it: `uncertain` where it was being sent. */
export function asLeft({ run, now }: Checkpoint, version: Version, attempt: Attempt, attempts: readonly Attempt[]): Attempt {
  if (attempt.status !== 'sending' || attempt.epoch >= run.epoch) return attempt;
  return withOutcome(attempt, { ...failed('process_died', LEFT), kind: 'uncertain' }, version.planNode(attempt.node), tallyBefore(attempts, attempt.n), now);
}

function reopen({ run }: Checkpoint, attempt: Attempt): Attempt {
  if (attempt.status === 'not_sent') return { ...attempt, status: 'open', epoch: run.epoch, verb: null, output: null, endedAt: null };
  return attempt.status === 'open' && attempt.epoch < run.epoch ? { ...attempt, epoch: run.epoch } : attempt;
}

/** An attempt as the worker sees it. */
export function replyOf(attempt: Attempt, attempts: readonly Attempt[]): AttemptReply {
  return { kind: 'attempt', seq: attempt.seq, n: attempt.n, node: attempt.node, tally: tallyBefore(attempts, attempt.n), outcome: outcomeOf(attempt) };
}
