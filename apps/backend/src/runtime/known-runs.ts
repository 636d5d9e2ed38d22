import type { Attempt } from '../runs/attempt.entity.js';
import type { RunContext } from '../runs/run-context.entity.js';
import type { Run } from '../runs/run.entity.js';

/** A run with the attempts of the step it stands on, as this backend has committed them; `context` where it was read. */
export type KnownRun = { run: Run; stamp: string; attempts: Attempt[]; context?: RunContext | null };
/** What the lock of a run answers. */
export type LockedRow = Pick<Run, 'id' | 'epoch' | 'seq'> & { stamp: string };
/** A run as it was saved; `read`: the attempts of steps, by seq. */
type Saved = { run: Run; stamp: string; read: ReadonlyMap<number, Attempt[]>; context?: RunContext | null };

/** So many runs may be on their way at a backend until the first of them are read anew at their next step. */
const MAX_KNOWN = 4_000;
/** A run whose step took or gave more than this, in characters of JSON, is read anew; so is a start that is longer. */
const MAX_CHARS = 2_000;

/**
 * The running runs that this backend wrote last, so that the next frame of one need not read what the last frame has written. What is kept is never taken
 * for true by itself: it is taken only for the row under lock that bears the same stamp, the transaction that wrote it (xmin), and whoever writes
 * a run's attempts writes its row too. So it does not matter who else writes, or whether another backend does; then the run is read anew.
 */
export class KnownRuns {
  /** In the order of writing, the latest at the end. */
  private readonly known = new Map<string, KnownRun>();

  /** What is known of a run. Good only for the row under lock that it is of (`isRowOf`). */
  peek(id: string): KnownRun | undefined {
    return this.known.get(id);
  }

  /** To be called once the transaction has committed, and only then. */
  keep(saved: readonly Saved[]): void {
    for (const { run, stamp, read, context } of saved) {
      const before = this.known.get(run.id);
      this.known.delete(run.id);
      const attempts = read.get(run.seq);
      if (run.state !== 'running' || !attempts?.every(({ input, output }) => isSmall([input, output]))) continue;
      const isContextKept = context !== undefined && (context === before?.context || isSmall(context));
      this.known.set(run.id, { run, stamp, attempts, ...(isContextKept && { context }) });
      if (this.known.size <= MAX_KNOWN) continue;
      const oldest = this.known.keys().next();
      if (!oldest.done) this.known.delete(oldest.value);
    }
  }
}

/** Is it the row as it was locked? Epoch and seq tell it also from the row of a Postgres that lost commits and gives their numbers out a second time. */
export function isRowOf({ run, stamp }: KnownRun, locked: LockedRow): boolean {
  return stamp === locked.stamp && run.epoch === locked.epoch && run.seq === locked.seq;
}

function isSmall(value: unknown): boolean {
  return JSON.stringify(value).length <= MAX_CHARS;
}
