import type { RuntimeReply } from '@onward/contracts/patterns';
import type { FailPoint } from '@onward/wire/fail-points';

/** The fail points that stand behind the commit of a frame, by what it was answered. */
export function pointsAfter(replies: readonly ({ reply: RuntimeReply } | { error: unknown })[]): FailPoint[] {
  return replies.flatMap((answer): FailPoint[] => {
    if ('error' in answer) return [];
    switch (answer.reply.kind) {
      case 'claimed':
        return ['claim.after-commit'];
      case 'send':
        return ['intent.after-commit'];
      case 'recorded':
        return ['outcome.after-commit'];
      case 'rests':
        return answer.reply.state === 'waiting' ? ['wait.after-commit'] : [];
      default:
        return [];
    }
  });
}
