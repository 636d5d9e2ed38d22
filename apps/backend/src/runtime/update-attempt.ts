import type { ReplyOf, RequestOf } from '@onward/contracts/patterns';
import { noteOutcome } from '../targets/note-outcome.js';
import { attemptsOf, type Checkpoint, placeOf, refused, type StepRef, writeAttempt } from './checkpoint.js';
import { tallyBefore, withOutcome } from './outcomes.js';
import type { RuntimeKit } from './runtime-kit.js';

type Request = RequestOf<'automation.runtime.attempt.update'> & StepRef;
type Reply = ReplyOf<'automation.runtime.attempt.update'>;

/**
 * Records what a send came to, and what that says of its target. An outcome that stands is never changed: the backend's own (an action it ran) and one recorded
 * before are answered as they are. The answer names the verb that is right.
 */
export async function updateAttempt(checkpoint: Checkpoint, request: Request, kit: RuntimeKit): Promise<Reply> {
  const place = placeOf(checkpoint, request);
  if (place !== 'live' && place !== 'repeat') return refused(place);
  const attempts = await attemptsOf(checkpoint, request.seq);
  const attempt = attempts.find(({ n }) => n === request.n);
  if (!attempt) return refused('no_attempt');
  if (attempt.verb) return { kind: 'recorded', verb: attempt.verb };
  if (place !== 'live' || attempt.status !== 'sending') return refused('no_attempt');
  const version = await kit.versions.get(checkpoint.tx, checkpoint.run.versionId);
  const recorded = withOutcome(attempt, request.outcome, version.planNode(attempt.node), tallyBefore(attempts, attempt.n), checkpoint.now);
  writeAttempt(checkpoint, recorded);
  const { tx, run, now } = checkpoint;
  await noteOutcome(tx, { runId: run.id, seq: attempt.seq, outcome: request.outcome, now, resetMs: kit.settings.breakerResetMs });
  return { kind: 'recorded', verb: recorded.verb ?? 'fail' };
}
