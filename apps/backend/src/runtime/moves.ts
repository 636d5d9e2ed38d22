import type { RunState } from '@onward/contracts/patterns';

export type Move = 'claim' | 'advance' | 'wait' | 'ask' | 'retry' | 'release' | 'lapse' | 'succeed' | 'fail' | 'bury' | 'cancel' | 'replay';

/** The only place a change of state is spelled. SQL WHERE clauses are made from it (`whereCan`). */
export const MOVES = {
  pending: { claim: 'running', cancel: 'cancelled' },
  running: {
    advance: 'running',
    wait: 'waiting',
    ask: 'awaiting_approval',
    retry: 'retrying',
    release: 'pending',
    lapse: 'pending',
    succeed: 'succeeded',
    fail: 'failed',
    bury: 'dead_lettered',
    cancel: 'cancelled',
  },
  waiting: { claim: 'running', cancel: 'cancelled' },
  awaiting_approval: { claim: 'running', cancel: 'cancelled' },
  retrying: { claim: 'running', cancel: 'cancelled' },
  dead_lettered: { replay: 'pending' },
  failed: { replay: 'pending' },
  succeeded: {},
  cancelled: {},
} as const satisfies Record<RunState, Partial<Record<Move, RunState>>>;

const TABLE: Record<RunState, Partial<Record<Move, RunState>>> = MOVES;

/** The state a move leads to. Throws for a move the state does not have: a fault of ours, never of a caller's. */
export function stateAfter(state: RunState, move: Move): RunState {
  const next = TABLE[state][move];
  if (!next) throw new Error(`A run that is ${state} cannot ${move}`);
  return next;
}

export function canMove(state: RunState, move: Move): boolean {
  return TABLE[state][move] !== undefined;
}

/** The states from which a move is allowed, as SQL: `state IN ('running')`. */
export function whereCan(move: Move): string {
  const states = (Object.keys(TABLE) as RunState[]).filter((state) => canMove(state, move));
  return `state IN (${states.map((state) => `'${state}'`).join(', ')})`;
}

/** Nothing moves such a run any more, except a replay. */
export function isEnded(state: RunState): boolean {
  return !canMove(state, 'cancel');
}
