import type { ReplyOf, RequestOf } from '@onward/contracts/patterns';
import { attemptsOf, type Checkpoint, placeOf, refused, type StepRef } from './checkpoint.js';
import { replyOf } from './create-attempt.js';

/** The latest attempt of the step the call names. Reads only. */
export async function latestAttempt(
  checkpoint: Checkpoint,
  request: RequestOf<'automation.runtime.attempt.latest'> & StepRef,
): Promise<ReplyOf<'automation.runtime.attempt.latest'>> {
  const place = placeOf(checkpoint, request);
  if (place !== 'live' && place !== 'repeat') return refused(place);
  const attempts = await attemptsOf(checkpoint, request.seq);
  const latest = attempts.at(-1);
  return latest ? replyOf(latest, attempts) : refused('no_attempt');
}
