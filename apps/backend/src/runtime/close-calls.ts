import type { Refused, ReplyOf, RequestOf, Rests, RuntimePattern, Verb } from '@onward/contracts/patterns';
import { attemptsOf, type Checkpoint, placeOf, refused, rests, type StepRef } from './checkpoint.js';
import { closeStep } from './close-step.js';
import { endRun } from './end-run.js';
import { leaveAttempt } from './leave-attempt.js';
import { restRun } from './rest-run.js';
import type { RuntimeKit } from './runtime-kit.js';

/**
 * The six calls that close or suspend the step in hand: run.advance, run.wait, run.retry, run.fail, run.dead-letter and run.succeed.
 * Each is allowed only where the recorded outcome was judged to it; otherwise the answer names the right verb, which the caller sends next.
 * The repeat of a call that was committed is answered with where the run is now.
 */

type Ref<P extends RuntimePattern> = RequestOf<P> & StepRef;

export async function advanceRun(
  checkpoint: Checkpoint,
  request: Ref<'automation.runtime.run.advance'>,
  kit: RuntimeKit,
): Promise<ReplyOf<'automation.runtime.run.advance'>> {
  kit.failPoints.reach('outcome.before-advance');
  const refusal = await close(checkpoint, request, 'advance', kit);
  if (refusal) return refusal;
  const { state, seq, node } = checkpoint.run;
  return state === 'running' ? { kind: 'advanced', seq, node } : rests(checkpoint);
}

export async function waitRun(checkpoint: Checkpoint, request: Ref<'automation.runtime.run.wait'>, kit: RuntimeKit): Promise<Rests | Refused> {
  if (request.release) return await release(checkpoint, request, kit);
  return (await close(checkpoint, request, 'wait', kit)) ?? rests(checkpoint);
}

export async function retryRun(checkpoint: Checkpoint, request: Ref<'automation.runtime.run.retry'>, kit: RuntimeKit): Promise<Rests | Refused> {
  return (await close(checkpoint, request, 'retry', kit)) ?? rests(checkpoint);
}

export async function failRun(checkpoint: Checkpoint, request: Ref<'automation.runtime.run.fail'>, kit: RuntimeKit): Promise<Rests | Refused> {
  return (await close(checkpoint, request, 'fail', kit)) ?? rests(checkpoint);
}

export async function deadLetterRun(checkpoint: Checkpoint, request: Ref<'automation.runtime.run.dead-letter'>, kit: RuntimeKit): Promise<Rests | Refused> {
  return (await close(checkpoint, request, 'dead-letter', kit)) ?? rests(checkpoint);
}

/** Only for a run that stands on an end node; an advance that reaches one has ended the run itself. */
export async function succeedRun(checkpoint: Checkpoint, request: Ref<'automation.runtime.run.succeed'>, kit: RuntimeKit): Promise<Rests | Refused> {
  const place = placeOf(checkpoint, request);
  if (place === 'repeat') return rests(checkpoint);
  if (place !== 'live') return refused(place);
  const version = await checkpoint.group.reads.version(kit.versions, checkpoint.run.versionId);
  if (version.compiled.node(checkpoint.run.node)?.type !== 'end') return refused('not_at_end');
  endRun(checkpoint, { move: 'succeed' }, kit);
  return rests(checkpoint);
}

async function close(checkpoint: Checkpoint, request: StepRef, verb: Verb, kit: RuntimeKit): Promise<Refused | undefined> {
  const place = placeOf(checkpoint, request);
  if (place === 'repeat') return undefined;
  if (place !== 'live') return refused(place);
  const attempt = (await attemptsOf(checkpoint, request.seq)).find(({ n }) => n === checkpoint.run.n);
  if (!attempt?.verb) return refused('no_attempt');
  if (attempt.verb !== verb && !checkpoint.run.isCancelAsked) return { kind: 'refused', reason: 'wrong_verb', verb: attempt.verb };
  const version = await checkpoint.group.reads.version(kit.versions, checkpoint.run.versionId);
  await closeStep(checkpoint, version, attempt, kit);
  return undefined;
}

/** Gives the run back as it stands: whoever claims it next begins where it is. Nothing is spent. */
async function release(checkpoint: Checkpoint, request: StepRef, kit: RuntimeKit): Promise<Rests | Refused> {
  const place = placeOf(checkpoint, request);
  if (place === 'repeat') return rests(checkpoint);
  if (place !== 'live') return refused(place);
  if (checkpoint.run.isCancelAsked) {
    await leaveAttempt(checkpoint);
    endRun(checkpoint, { move: 'cancel', reason: 'cancelled by request' }, kit);
  } else {
    restRun(checkpoint, 'release', { dueAt: checkpoint.now });
  }
  return rests(checkpoint);
}
