import type { Refused, Rests, RefusalReason } from '@onward/contracts/patterns';
import { assignments, selectList, toRecords } from '../database/columns.js';
import { rows, type Tx } from '../database/sql.js';
import type { Attempt } from '../runs/attempt.entity.js';
import type { Run } from '../runs/run.entity.js';
import { ATTEMPT_COLUMNS, RUN_COLUMNS } from '../runs/run-columns.js';
import { describeState } from '../runs/describe-state.js';

/**
 * One run, locked, and what the calls of a frame make of it.
 *
 * Handlers read and change this object; they write no run and no attempt themselves. `saveCheckpoints` writes all of it in two
 * statements, so a frame is one transaction, whatever it holds, and many runs can be saved as one. A handler that throws is undone by
 * `restore`. Only an action's own effect goes through `tx` directly.
 */
export type Checkpoint = {
  readonly tx: Tx;
  /** The clock of due times, rounded up to the ms, so that what is counted from it is never early. */
  readonly now: Date;
  /** The database's real clock: leases and what was enqueued when. */
  readonly realNow: Date;
  readonly locked: Readonly<Pick<Run, 'claimId' | 'epoch' | 'seq' | 'state'>>;
  run: Run;
  isRunChanged: boolean;
  /** Attempts read so far, by seq, in order of n. */
  read: Map<number, Attempt[]>;
  /** Attempts to write, by `seq/n`. */
  written: Map<string, Attempt>;
  /** What is to be done in the same transaction once run and attempts are written: a notice, an event. */
  after: ((tx: Tx) => Promise<void>)[];
};

/** Locks a run by its id alone and reads it. Null when there is none. */
export async function lockRun(tx: Tx, runId: string): Promise<Checkpoint | null> {
  const [found] = await rows<Run & { now: Date; realNow: Date }>(
    tx,
    `SELECT ${selectList(RUN_COLUMNS)},
            date_trunc('milliseconds', onward_now()) + interval '1 millisecond' AS now, clock_timestamp() AS "realNow"
     FROM runs WHERE id = $1 FOR UPDATE`,
    [runId],
  );
  if (!found) return null;
  const { now, realNow, ...run } = found;
  const { claimId, epoch, seq, state } = run;
  return { tx, now, realNow, locked: { claimId, epoch, seq, state }, run, isRunChanged: false, read: new Map(), written: new Map(), after: [] };
}

/** The attempts of a step, in order of n, what this checkpoint wrote included. */
export async function attemptsOf(checkpoint: Checkpoint, seq: number): Promise<Attempt[]> {
  const known = checkpoint.read.get(seq);
  if (known) return known;
  const read = await rows<Attempt>(checkpoint.tx, `SELECT ${selectList(ATTEMPT_COLUMNS)} FROM attempts WHERE run_id = $1 AND seq = $2 ORDER BY n`, [
    checkpoint.run.id,
    seq,
  ]);
  checkpoint.read.set(seq, read);
  return read;
}

/** The attempt in hand of the step the run stands on, if it was begun. */
export async function currentAttempt(checkpoint: Checkpoint): Promise<Attempt | undefined> {
  const { seq, n } = checkpoint.run;
  return (await attemptsOf(checkpoint, seq)).find((attempt) => attempt.n === n);
}

export function changeRun(checkpoint: Checkpoint, change: Partial<Run>): void {
  checkpoint.run = { ...checkpoint.run, ...change };
  checkpoint.isRunChanged = true;
}

export function writeAttempt(checkpoint: Checkpoint, attempt: Attempt): void {
  const known = checkpoint.read.get(attempt.seq) ?? [];
  checkpoint.read.set(
    attempt.seq,
    [...known.filter(({ n }) => n !== attempt.n), attempt].sort((a, b) => a.n - b.n),
  );
  checkpoint.written.set(`${attempt.seq}/${attempt.n}`, attempt);
}

type Snapshot = Pick<Checkpoint, 'run' | 'isRunChanged' | 'read' | 'written' | 'after'>;

export function snapshot({ run, isRunChanged, read, written, after }: Checkpoint): Snapshot {
  return { run, isRunChanged, read: new Map(read), written: new Map(written), after: [...after] };
}

export function restore(checkpoint: Checkpoint, to: Snapshot): void {
  Object.assign(checkpoint, to);
}

const NEVER_CHANGED = ['id', 'workflowId', 'contactId', 'eventId', 'createdAt'] as const satisfies (keyof Run)[];

const SAVE_RUNS = `
  UPDATE runs SET ${assignments(RUN_COLUMNS, 'new', NEVER_CHANGED)}
  FROM jsonb_populate_recordset(null::runs, $1::jsonb) new,
       jsonb_to_recordset($2::jsonb) AS old (id uuid, claim_id uuid, epoch integer, seq integer, state text)
  WHERE runs.id = new.id AND old.id = new.id
    AND runs.claim_id = old.claim_id AND runs.epoch = old.epoch AND runs.seq = old.seq AND runs.state = old.state
  RETURNING runs.id`;

const SAVE_ATTEMPTS = `
  INSERT INTO attempts SELECT * FROM jsonb_populate_recordset(null::attempts, $1::jsonb)
  ON CONFLICT (run_id, seq, n) DO UPDATE SET ${assignments<Attempt>(ATTEMPT_COLUMNS, 'excluded', ['runId', 'seq', 'n', 'startedAt', 'replayOf'])}`;

/**
 * Writes what became of locked runs: attempts, then the cursor, fenced by what was locked.
 * Throws when a fence does not hold, which a held lock makes impossible: the transaction must not commit then.
 */
export async function saveCheckpoints(tx: Tx, checkpoints: readonly Checkpoint[]): Promise<void> {
  const attempts = checkpoints.flatMap(({ written }) => [...written.values()]);
  if (attempts.length > 0) await rows(tx, SAVE_ATTEMPTS, [toRecords(ATTEMPT_COLUMNS, attempts)]);
  const changed = checkpoints.filter(({ isRunChanged }) => isRunChanged);
  if (changed.length > 0) {
    const fences = changed.map(({ run, locked }) => ({ id: run.id, claim_id: locked.claimId, epoch: locked.epoch, seq: locked.seq, state: locked.state }));
    const saved = await rows(tx, SAVE_RUNS, [
      toRecords(
        RUN_COLUMNS,
        changed.map(({ run }) => run),
      ),
      JSON.stringify(fences),
    ]);
    if (saved.length !== changed.length) throw new Error('A locked run was changed by somebody else');
  }
  for (const { after } of checkpoints) for (const work of after) await work(tx);
}

export type StepRef = { claimId: string; epoch: number; seq: number };

/**
 * Where a call stands: `live` may change the run; `repeat` is the frame that committed last, sent again, and is answered from what was
 * recorded; anything else is refused.
 */
export function placeOf({ run }: Checkpoint, ref: StepRef): 'live' | 'repeat' | RefusalReason {
  const isCurrent = run.state === 'running' && run.claimId === ref.claimId && run.epoch === ref.epoch;
  if (isCurrent && run.seq === ref.seq) return 'live';
  if (run.lastClaimId === ref.claimId && run.lastEpoch === ref.epoch && run.lastSeq === ref.seq) return 'repeat';
  if (run.claimId !== ref.claimId) return 'stale_claim';
  if (run.epoch !== ref.epoch) return 'stale_epoch';
  return run.state === 'running' ? 'stale_seq' : 'not_running';
}

export function refused(reason: RefusalReason): Refused {
  return { kind: 'refused', reason };
}

/** Where the run rests, in words. */
export function rests({ run }: Checkpoint): Rests {
  return { kind: 'rests', state: run.state, why: describeState(run), dueAt: run.dueAt?.toISOString() ?? null };
}
