import { targetKey } from '@onward/contracts/targets';
import type { Run } from './run.entity.js';

/** Why a run is where it is, in one sentence for people. Instants are RFC 3339 in UTC; a screen may show them in its own zone. */
export function describeState(
  run: Pick<Run, 'state' | 'node' | 'n' | 'dueAt' | 'isHeld' | 'waitReason' | 'waitKey' | 'isCancelAsked' | 'endReason' | 'resolution'>,
): string {
  const due = run.dueAt?.toISOString();
  if (run.isHeld) return 'held: the workflow is paused';
  switch (run.state) {
    case 'pending':
      return `due since ${due}, not yet taken up`;
    case 'running':
      return run.isCancelAsked ? `at ${run.node}; ends cancelled when this step is over` : `at ${run.node}`;
    case 'waiting':
      if (run.resolution) return `what it waited for at ${run.node} has come; it goes on`;
      if (run.waitReason === 'target')
        return `blocked by ${run.waitKey?.slice(TARGET_KEY.length)}${due ? `, tried again at ${due}` : ' until an operator closes it'}`;
      return `${WAITS[run.waitReason ?? 'time']}${due ? ` until ${due}` : ''}`;
    case 'awaiting_approval':
      return `waiting for a decision at ${run.node}${due ? ` until ${due}` : ''}`;
    case 'retrying':
      return `attempt ${run.n - 1} of ${run.node} failed; tried again at ${due}`;
    case 'succeeded':
      return 'ended well';
    case 'failed':
      return `failed at ${run.node}: ${run.endReason ?? 'unknown'}`;
    case 'dead_lettered':
      return `gave up at ${run.node}: ${run.endReason ?? 'unknown'}`;
    case 'cancelled':
      return `cancelled at ${run.node}: ${run.endReason ?? 'by request'}`;
  }
}

const TARGET_KEY = targetKey('');

const WAITS = {
  time: 'waiting',
  mail: 'waiting for its mail to be handed over',
  event: 'waiting for an event',
} as const;
