import DataLoader from 'dataloader';
import type { Action, ActionResult, Step } from '../actions/action.js';
import type { Tx } from '../database/sql.js';
import { Reads } from './reads.js';

/**
 * Thrown at whoever asks for the transaction of a run that shares it: the run leaves the others, with nothing written, and is handled again
 * in one of its own. Not a fault.
 */
export class NeedsOwnTransaction extends Error {
  override readonly name = 'NeedsOwnTransaction';
  constructor() {
    super('What is to be done needs a transaction of its own');
  }
}

type Executor = DataLoader<Step<unknown>, ActionResult>;

/**
 * The runs that are handled in one transaction: what they read and what their actions write goes to the database for all of them together.
 * A handler knows nothing of the others. In a transaction shared with others it may read by `reads`, change its checkpoint and perform
 * actions that have a form for many; anything else takes `tx` of its checkpoint, which there is only for a run alone.
 */
export class Group {
  readonly reads: Reads;
  private readonly executors = new Map<Action<unknown>, Executor>();

  /** `tx` is for those who write for the whole group. */
  constructor(
    readonly tx: Tx,
    readonly isShared: boolean,
  ) {
    this.reads = new Reads(tx);
  }

  ownTx(): Tx {
    if (this.isShared) throw new NeedsOwnTransaction();
    return this.tx;
  }

  /** Performs a step by the form its action has: together with the steps of others, or alone. */
  perform(action: Action<unknown>, step: Step<unknown>): Promise<ActionResult> {
    const { executeMany } = action;
    if (!executeMany) return action.execute(step);
    let executor = this.executors.get(action);
    if (!executor) {
      executor = new DataLoader((steps: readonly Step<unknown>[]) => this.reads.inTurn(() => executeMany(this.tx, steps)), { cache: false });
      this.executors.set(action, executor);
    }
    return executor.load(step);
  }
}
