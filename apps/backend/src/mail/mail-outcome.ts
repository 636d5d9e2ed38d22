import type { Json } from '@onward/contracts/json';
import type { Outcome } from '@onward/contracts/outcome';
import type { Message } from './message.entity.js';

/**
 * What the fate of a message means for the step that sent it; null while it is still on its way.
 * A message that was left out, or that may or may not have been delivered, does not stop the run: it goes on, marked.
 */
export function outcomeOf({ id, state, messageIdHeader, to, skipReason, failure }: Message): Outcome | null {
  const output: { [key: string]: Json } = { messageId: id, messageIdHeader, to: to.address };
  switch (state) {
    case 'prepared':
    case 'begun':
      return null;
    case 'sent':
      return { kind: 'done', output };
    case 'skipped':
      return { kind: 'done', output: { ...output, skipped: skipReason ?? 'unknown' }, mark: 'skipped' };
    case 'uncertain':
      return { kind: 'done', output: { ...output, uncertain: true }, mark: 'uncertain' };
    case 'failed':
      return { kind: 'failed', failure: failure ?? { code: 'smtp_permanent', message: 'The message was refused' } };
  }
}
