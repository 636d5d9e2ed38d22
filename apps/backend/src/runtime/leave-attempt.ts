import { failed } from '@onward/contracts/outcome';
import { type Checkpoint, currentAttempt, writeAttempt } from './checkpoint.js';

/**
 * Closes the attempt in hand of a run that ends without an outcome for it (cancelled, or given up): what was being sent is uncertain, what
 * had only begun was not sent. Without this the history would say for ever that it is going on.
 */
export async function leaveAttempt(checkpoint: Checkpoint): Promise<void> {
  const attempt = await currentAttempt(checkpoint);
  if (attempt?.status === 'sending') {
    const { failure } = failed('process_died', 'The run was ended between sending and recording; the target may or may not have acted');
    writeAttempt(checkpoint, { ...attempt, status: 'uncertain', failure, endedAt: checkpoint.now });
  } else if (attempt?.status === 'open') {
    writeAttempt(checkpoint, { ...attempt, status: 'not_sent', output: { why: 'the run was ended' }, endedAt: checkpoint.now });
  }
}
