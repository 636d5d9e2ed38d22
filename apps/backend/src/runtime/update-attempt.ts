import type { Outcome } from '@onward/contracts/outcome';
import type { ReplyOf, RequestOf } from '@onward/contracts/patterns';
import { noteOutcome, speaksOfTarget } from '../targets/note-outcome.js';
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
  const version = await checkpoint.group.reads.version(kit.versions, checkpoint.run.versionId);
  const outcome = await atItsOwnTarget(checkpoint, request);
  const recorded = withOutcome(attempt, outcome, version.planNode(attempt.node), tallyBefore(attempts, attempt.n), checkpoint.now);
  writeAttempt(checkpoint, recorded);
  const { group, run, now } = checkpoint;
  if (speaksOfTarget(outcome) || (await group.reads.isProbe(run.id))) {
    await noteOutcome(checkpoint.tx, { runId: run.id, seq: attempt.seq, outcome, now, resetMs: kit.settings.breakerResetMs });
  }
  return { kind: 'recorded', verb: recorded.verb ?? 'fail' };
}

/** What was held back waits for the target of its frozen request, whatever origin was told: at any other nobody might ever let it go. */
async function atItsOwnTarget({ group, run }: Checkpoint, { seq, outcome }: Request): Promise<Outcome> {
  if (outcome.kind !== 'not_sent' || !outcome.blocked) return outcome;
  const frozen = await group.reads.frozen(run.id, seq);
  return frozen ? { ...outcome, blocked: { ...outcome.blocked, origin: new URL(frozen.url).origin } } : outcome;
}
