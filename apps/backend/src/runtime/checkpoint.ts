import type { TargetLimits } from '@onward/contracts/targets';
import type { Refused, Rests, RefusalReason } from '@onward/contracts/patterns';
import { selectList } from '../database/columns.js';
import { KEEP_PLANS, prepared, type Tx } from '../database/sql.js';
import type { Attempt } from '../runs/attempt.entity.js';
import type { RunContext } from '../runs/run-context.entity.js';
import type { Run } from '../runs/run.entity.js';
import { ATTEMPT_COLUMNS, RUN_COLUMNS } from '../runs/run-columns.js';
import { describeState } from '../runs/describe-state.js';
import type { FrozenRequest } from '../secrets/frozen-request.js';
import { Group } from './group.js';
import { type ReadContact, readContactsOf } from './read-contacts.js';
import { isRowOf, type KnownRun, type KnownRuns, type LockedRow } from './known-runs.js';

/**
 * One run, locked, and what the calls of a frame make of it.
 *
 * Handlers read and change this object; they write no run and no attempt themselves. `saveCheckpoints` writes all of it in a few
 * statements, so a frame is one transaction, whatever it holds, and many runs are saved as one. A handler that throws is undone by
 * `restore`. Only what an action does for one run alone goes through `tx` directly.
 */
export type Checkpoint = {
  /** Who shares the transaction, and how things are read. */
  readonly group: Group;
  /** The transaction, for whatever is done with it for this run alone; where it is shared, asking for it throws NeedsOwnTransaction. */
  readonly tx: Tx;
  /** The clock of due times, rounded up to the ms, so that what is counted from it is never early. */
  readonly now: Date;
  /** The database's real clock: leases and what was enqueued when. */
  readonly realNow: Date;
  /** As it was read. */
  readonly locked: Readonly<Run>;
  /** The transaction that wrote the row (xmin): that of the row as it was locked, and of what was saved. */
  stamp: string;
  /** The run's workflow as it stood then. */
  readonly workflow: { name: string; status: string };
  run: Run;
  isRunChanged: boolean;
  /** Attempts read so far, by seq, in order of n. */
  read: Map<number, Attempt[]>;
  /** The attempts that are in the database, as they are there, by seq, as far as they were read. Not renewed by what is saved: a checkpoint is saved once. */
  stored: Map<number, readonly Attempt[]>;
  /** Attempts to write, by `seq/n`. */
  written: Map<string, Attempt>;
  /** What the run was started with, once it was read; null when it is gone. */
  context: RunContext | null | undefined;
  /** Its contact as it is now, where it was read with the run and no action of it has begun since; null when it is gone or there is none. */
  contact: ReadContact | null | undefined;
  /** Requests frozen for a step of the run. */
  frozen: FrozenRow[];
  /** Targets that it entered unasked, as they were known: to be checked before the commit. */
  readonly met: TargetLimits[];
  /** What is to be done in the same transaction once run and attempts are written: a notice, an event. */
  after: ((tx: Tx) => Promise<void>)[];
  /** An action has written for it in the transaction: it cannot leave the group any more. */
  hasActed: boolean;
};

/** A row of `outbound_requests`. */
export type FrozenRow = { runId: string; seq: number; request: FrozenRequest; idempotencyKey: string; bodyHash: Buffer };

const CLOCKS = `date_trunc('milliseconds', onward_now()) + interval '1 millisecond' AS now, clock_timestamp() AS "realNow"`;
/** Many wait for one in a transaction they share, so it waits for nobody's lock longer than this; who is alone has the usual time. */
const BEGIN_TOGETHER = `SELECT ${CLOCKS}, set_config('lock_timeout', '300ms', true), ${KEEP_PLANS}`;
const LOCK_ONE = 'SELECT 1 FROM runs WHERE id = $1 FOR UPDATE';
const READ_ONE = `
  SELECT ${selectList(RUN_COLUMNS, 'runs')}, runs.xmin AS stamp, workflows.name AS "workflowName", workflows.status AS "workflowStatus", ${CLOCKS}, ${KEEP_PLANS} AS plans
  FROM runs JOIN workflows ON workflows.id = runs.workflow_id WHERE runs.id = $1`;
const LOCK_MANY = 'SELECT id, xmin AS stamp, epoch, seq FROM runs WHERE id = ANY($1::uuid[]) ORDER BY id FOR UPDATE SKIP LOCKED';
/** With what a claim asks next: what the run was started with, null where that is gone. */
const READ_RUNS = `
  SELECT ${selectList(RUN_COLUMNS, 'runs')}, runs.xmin AS stamp, context, workflows.name AS "workflowName", workflows.status AS "workflowStatus"
  FROM runs JOIN workflows ON workflows.id = runs.workflow_id LEFT JOIN run_contexts ON run_id = runs.id WHERE runs.id = ANY($1::uuid[])`;
const READ_WORKFLOWS = 'SELECT id, name, status FROM workflows WHERE id = ANY ($1::uuid[])';
/** Of the step that each of these runs stands on. */
const READ_ATTEMPTS = `
  SELECT one.* FROM runs CROSS JOIN LATERAL (SELECT ${selectList(ATTEMPT_COLUMNS)} FROM attempts WHERE run_id = runs.id AND seq = runs.seq ORDER BY n) AS one
  WHERE runs.id = ANY($1::uuid[])`;

type Clocks = { now: Date; realNow: Date };
type ReadRow = Run & { stamp: string; workflowName: string; workflowStatus: string };
type WorkflowRow = { id: string; name: string; status: string };

/**
 * Locks a run by its id alone and reads it. Null when there is none. The lock may have been waited for, so its workflow is read in a later statement,
 * which sees what was committed meanwhile: a pause, above all.
 */
export async function lockRun(tx: Tx, runId: string): Promise<Checkpoint | null> {
  const [, [found]] = await Promise.all([prepared(tx, LOCK_ONE, [runId]), prepared<ReadRow & Clocks & { plans: string }>(tx, READ_ONE, [runId])]);
  if (!found) return null;
  const { stamp, workflowName, workflowStatus, now, realNow, plans: _plans, ...run } = found;
  return checkpointOf(new Group(tx, false), { run, stamp, workflow: { name: workflowName, status: workflowStatus }, now, realNow });
}

/**
 * Locks runs that share a transaction and reads them, with the attempts of the step each stands on; those of which `known` has the very row are not read
 * again. Left out: one that is not there, or held by somebody else.
 */
export async function lockRuns(tx: Tx, runIds: readonly string[], known: KnownRuns): Promise<Checkpoint[]> {
  const expected = new Map(runIds.flatMap((id) => known.peek(id) ?? []).map((one) => [one.run.id, one]));
  const strange = runIds.filter((id) => !expected.has(id));
  const workflowIds = [...new Set([...expected.values()].map(({ run }) => run.workflowId))];
  // What is read travels with the lock, and is run once that is held.
  const [[clocks], locked, workflows, read] = await Promise.all([
    prepared<Clocks>(tx, BEGIN_TOGETHER, []),
    prepared<LockedRow>(tx, LOCK_MANY, [runIds]),
    workflowIds.length === 0 ? [] : prepared<WorkflowRow>(tx, READ_WORKFLOWS, [workflowIds]),
    readRuns(tx, strange),
  ]);
  if (!clocks) throw new Error('Postgres did not say what time it is');
  const outdated: string[] = [];
  for (const row of locked) {
    const one = expected.get(row.id);
    if (one && isRowOf(one, row)) read.set(row.id, one);
    else if (one) outdated.push(row.id);
  }
  for (const [id, one] of await readRuns(tx, outdated)) read.set(id, one);
  const workflowOf = new Map(workflows.map(({ id, name, status }) => [id, { name, status }]));
  const group = new Group(tx, true);
  return locked.map(({ id }) => openRun(group, read.get(id) as OpenedRun, clocks, workflowOf));
}

/** What a run is opened with. `contact` and `workflow` where they were read. */
type OpenedRun = KnownRun & { contact?: ReadContact | null; workflow?: Checkpoint['workflow'] };

/** Runs as they stand, with their workflow, the attempts of the step each stands on and what a claim asks next: the context and the contact. */
async function readRuns(tx: Tx, ids: readonly string[]): Promise<Map<string, OpenedRun>> {
  if (ids.length === 0) return new Map();
  const [runs, attempts, contacts] = await Promise.all([
    prepared<ReadRow & { context: RunContext | null }>(tx, READ_RUNS, [ids]),
    prepared<Attempt>(tx, READ_ATTEMPTS, [ids]),
    readContactsOf(tx, ids),
  ]);
  const read = new Map(
    runs.map(({ stamp, context, workflowName, workflowStatus, ...run }): [string, OpenedRun] => {
      const contact = run.contactId === null ? null : (contacts.get(run.contactId) ?? null);
      return [run.id, { run, stamp, attempts: [], context, contact, workflow: { name: workflowName, status: workflowStatus } }];
    }),
  );
  for (const attempt of attempts) read.get(attempt.runId)?.attempts.push(attempt);
  return read;
}

function openRun(
  group: Group,
  { run, stamp, attempts, context, contact, workflow: read }: OpenedRun,
  clocks: Clocks,
  workflows: ReadonlyMap<string, Checkpoint['workflow']>,
): Checkpoint {
  const workflow = read ?? workflows.get(run.workflowId);
  if (!workflow) throw new Error(`There is no workflow ${run.workflowId}`);
  const checkpoint = checkpointOf(group, { run, stamp, workflow, ...clocks });
  checkpoint.read.set(run.seq, attempts);
  checkpoint.stored.set(run.seq, attempts);
  if (context !== undefined) checkpoint.context = context;
  checkpoint.contact = contact;
  return checkpoint;
}

type Opened = Clocks & { run: Run; stamp: string; workflow: Checkpoint['workflow'] };

function checkpointOf(group: Group, { run, stamp, workflow, now, realNow }: Opened): Checkpoint {
  return new OpenRun(group, now, realNow, run, stamp, workflow);
}

/** Every property is there from the beginning, which is what keeps objects of which there are thousands small and quick. */
class OpenRun implements Checkpoint {
  run: Run;
  isRunChanged = false;
  read = new Map<number, Attempt[]>();
  stored = new Map<number, readonly Attempt[]>();
  written = new Map<string, Attempt>();
  context: RunContext | null | undefined = undefined;
  contact: ReadContact | null | undefined = undefined;
  frozen: FrozenRow[] = [];
  readonly met: TargetLimits[] = [];
  after: Checkpoint['after'] = [];
  hasActed = false;

  constructor(
    readonly group: Group,
    readonly now: Date,
    readonly realNow: Date,
    readonly locked: Readonly<Run>,
    public stamp: string,
    readonly workflow: Checkpoint['workflow'],
  ) {
    this.run = locked;
  }

  get tx(): Tx {
    return this.group.ownTx();
  }
}

/** The attempts of a step, in order of n, what this checkpoint wrote included. */
export async function attemptsOf(checkpoint: Checkpoint, seq: number): Promise<Attempt[]> {
  const known = checkpoint.read.get(seq);
  if (known) return known;
  const read = await readAttempts(checkpoint, seq);
  checkpoint.read.set(seq, read);
  return read;
}

/** The attempts of a step that are in the database, as they are there. */
export async function storedOf(checkpoint: Checkpoint, seq: number): Promise<readonly Attempt[]> {
  return checkpoint.stored.get(seq) ?? readAttempts(checkpoint, seq);
}

/** A run has no attempt of a step it had not come to when it was locked. */
async function readAttempts(checkpoint: Checkpoint, seq: number): Promise<Attempt[]> {
  const found = seq > checkpoint.locked.seq ? [] : await checkpoint.group.reads.attempts(checkpoint.run.id, seq);
  checkpoint.stored.set(seq, found);
  return found;
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

/** Keeps an attempt to be written. Its run is written with it, so that who knows the run by its row's stamp (known-runs.ts) knows its attempts. */
export function writeAttempt(checkpoint: Checkpoint, attempt: Attempt): void {
  checkpoint.isRunChanged = true;
  const known = checkpoint.read.get(attempt.seq) ?? [];
  checkpoint.read.set(
    attempt.seq,
    [...known.filter(({ n }) => n !== attempt.n), attempt].sort((a, b) => a.n - b.n),
  );
  checkpoint.written.set(`${attempt.seq}/${attempt.n}`, attempt);
}

type Snapshot = Pick<Checkpoint, 'run' | 'isRunChanged' | 'read' | 'written' | 'frozen' | 'after'>;

export function snapshot({ run, isRunChanged, read, written, frozen, after }: Checkpoint): Snapshot {
  return { run, isRunChanged, read: new Map(read), written: new Map(written), frozen: [...frozen], after: [...after] };
}

export function restore(checkpoint: Checkpoint, to: Snapshot): void {
  Object.assign(checkpoint, to);
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
