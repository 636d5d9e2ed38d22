import { asColumn, type ColumnTypes, fromArrays, namesOf, toArrays } from '../database/columns.js';
import { commitWith, inOneGo, type Statement, type Tx } from '../database/sql.js';
import type { Attempt } from '../runs/attempt.entity.js';
import type { Run } from '../runs/run.entity.js';
import { ATTEMPT_COLUMNS, ATTEMPT_TYPES, RUN_COLUMNS, RUN_TYPES } from '../runs/run-columns.js';
import { checking } from '../targets/known-targets.js';
import { type Checkpoint, type FrozenRow, storedOf } from './checkpoint.js';

/** Of the run as it was locked, which tells it from any that came after. */
type Fence = { id: string; ofClaimId: string; ofEpoch: number; ofSeq: number; ofState: string };
const FENCE_TYPES: ColumnTypes<Fence> = { id: 'uuid', ofClaimId: 'uuid', ofEpoch: 'integer', ofSeq: 'integer', ofState: 'text' };

/** What a step changes of a run that goes on: most checkpoints are no more than this, beside the claim it moved under. */
const CURSOR = ['node', 'seq', 'n', 'takeovers', 'lastSeq'] as const satisfies (keyof Run)[];
/** Set from the fence, where they are those of the claim that was locked. */
const FROM_FENCE = { lastClaimId: 'ofClaimId', lastEpoch: 'ofEpoch' } as const satisfies Partial<Record<keyof Run, keyof Fence>>;
const NEVER_CHANGED = ['id', 'workflowId', 'contactId', 'eventId', 'createdAt'] as const satisfies (keyof Run)[];
const CHANGED = namesOf(RUN_COLUMNS).filter((name) => !(NEVER_CHANGED as readonly (keyof Run)[]).includes(name));
const REST = CHANGED.filter((name) => !(name in FROM_FENCE) && !(CURSOR as readonly (keyof Run)[]).includes(name));

export const MOVE_CURSORS = updateRuns(CURSOR, FROM_FENCE);
export const SAVE_RUNS = updateRuns(CHANGED);

type AttemptColumn = keyof typeof ATTEMPT_COLUMNS;
const ATTEMPT = namesOf(ATTEMPT_COLUMNS);
const KEY: readonly AttemptColumn[] = ['runId', 'seq', 'n'];
const KEPT: readonly AttemptColumn[] = [...KEY, 'startedAt', 'replayOf'];
const BEGINNING: readonly AttemptColumn[] = [...KEY, 'node', 'nodeType', 'status', 'epoch', 'input', 'startedAt'];
const OUTCOME: readonly AttemptColumn[] = ['port', 'verb', 'output', 'endedAt'];
/** Most attempts have something in few of their columns, and change few: each array that is left out is one that nobody writes and reads. The widest comes last. */
const INSERT_ATTEMPTS = [BEGINNING, [...BEGINNING, ...OUTCOME], ATTEMPT].map(insertAttempts);
const CHANGE_ATTEMPTS = [['status' as const, ...OUTCOME], ATTEMPT.filter((name) => !KEPT.includes(name))].map(changeAttempts);

const FROZEN_TYPES: ColumnTypes<FrozenRow> = { runId: 'uuid', seq: 'integer', request: 'jsonb', idempotencyKey: 'text', bodyHash: 'bytea' };
const INSERT_FROZEN = `
  INSERT INTO outbound_requests (run_id, seq, request, idempotency_key, body_hash)
  SELECT "runId", seq, ${asColumn(FROZEN_TYPES, 'new', 'request')}, "idempotencyKey", "bodyHash" FROM ${fromArrays(FROZEN_TYPES, 'new')}`;

/**
 * Writes what became of locked runs, however many: attempts, frozen requests, then the cursors, fenced by what was locked, then what is to be
 * done after. Throws when a fence does not hold, which a held lock makes impossible, or when a target is not as a run took it to be: the transaction cannot
 * commit then.
 */
export async function saveCheckpoints(tx: Tx, checkpoints: readonly Checkpoint[]): Promise<void> {
  noteStamps(checkpoints, await inOneGo(tx, await writesOf(checkpoints)));
  for (const { after } of checkpoints) for (const work of after) await work(tx);
}

/** The same as the last thing in the transaction: it is committed in the same way to the database, unless something is to be done after. */
export async function commitCheckpoints(tx: Tx, checkpoints: readonly Checkpoint[]): Promise<void> {
  if (checkpoints.some(({ after }) => after.length > 0)) return saveCheckpoints(tx, checkpoints);
  noteStamps(checkpoints, await commitWith(tx, await writesOf(checkpoints)));
}

async function writesOf(checkpoints: readonly Checkpoint[]): Promise<Statement[]> {
  const { added, changed } = await sortAttempts(checkpoints);
  const frozen = checkpoints.flatMap((checkpoint) => checkpoint.frozen);
  const changedRuns = checkpoints.filter(({ isRunChanged }) => isRunChanged);
  const moved = new Set(changedRuns.filter(isCursorOnly));
  const others = changedRuns.filter((checkpoint) => !moved.has(checkpoint));
  const met = checkpoints.flatMap((checkpoint) => checkpoint.met);
  return [
    ...(met.length > 0 ? [checking(met)] : []),
    ...(added.length > 0 ? [writeOf(INSERT_ATTEMPTS, added, (attempt, name) => attempt[name] === null)] : []),
    ...(changed.size > 0 ? [writeOf(CHANGE_ATTEMPTS, [...changed.keys()], (attempt, name) => attempt[name] === changed.get(attempt)?.[name])] : []),
    ...(frozen.length > 0 ? [{ statement: INSERT_FROZEN, parameters: toArrays(FROZEN_TYPES, frozen) }] : []),
    ...(moved.size > 0 ? [saveRuns(MOVE_CURSORS, [...moved])] : []),
    ...(others.length > 0 ? [saveRuns(SAVE_RUNS, others)] : []),
  ];
}

function noteStamps(checkpoints: readonly Checkpoint[], answers: readonly unknown[][]): void {
  const stamps = new Map((answers.flat() as { id?: string; stamp?: string }[]).map(({ id, stamp }) => [id, stamp]));
  for (const checkpoint of checkpoints) checkpoint.stamp = stamps.get(checkpoint.run.id) ?? checkpoint.stamp;
}

/** What is written is either new or there already; with each of the latter, what is there. */
async function sortAttempts(checkpoints: readonly Checkpoint[]): Promise<{ added: Attempt[]; changed: Map<Attempt, Attempt> }> {
  const added: Attempt[] = [];
  const changed = new Map<Attempt, Attempt>();
  for (const checkpoint of checkpoints) {
    for (const attempt of checkpoint.written.values()) {
      const there = (await storedOf(checkpoint, attempt.seq)).find(({ n }) => n === attempt.n);
      if (there) changed.set(attempt, there);
      else added.push(attempt);
    }
  }
  return { added, changed };
}

type AttemptWrite = { statement: string; types: ColumnTypes<Attempt>; leftOut: readonly AttemptColumn[] };

/** The narrowest of these writes that leaves out nothing that has to be written of these attempts. */
function writeOf(writes: readonly AttemptWrite[], attempts: readonly Attempt[], mayBeLeftOut: (attempt: Attempt, name: AttemptColumn) => boolean): Statement {
  const { statement, types } = writes.find(({ leftOut }) => attempts.every((attempt) => leftOut.every((name) => mayBeLeftOut(attempt, name)))) as AttemptWrite;
  return { statement, parameters: toArrays(types, attempts) };
}

function insertAttempts(names: readonly AttemptColumn[]): AttemptWrite {
  const types = typesOf(names);
  const statement = `
    INSERT INTO attempts (${names.map((name) => ATTEMPT_COLUMNS[name]).join(', ')})
    SELECT ${names.map((name) => asColumn(types, 'new', name)).join(', ')} FROM ${fromArrays(types, 'new')}`;
  return { statement, types, leftOut: ATTEMPT.filter((name) => !names.includes(name)) };
}

function changeAttempts(names: readonly AttemptColumn[]): AttemptWrite {
  const types = typesOf([...KEY, ...names]);
  const statement = wholly({
    update: `
      UPDATE attempts SET ${names.map((name) => `${ATTEMPT_COLUMNS[name]} = ${asColumn(types, 'new', name)}`).join(', ')}
      FROM ${fromArrays(types, 'new')} WHERE attempts.run_id = new."runId" AND attempts.seq = new.seq AND attempts.n = new.n
      RETURNING attempts.n`,
    answers: '',
    otherwise: 'An attempt of a locked run is gone',
  });
  return { statement, types, leftOut: ATTEMPT.filter((name) => !KEPT.includes(name) && !names.includes(name)) };
}

function typesOf(names: readonly AttemptColumn[]): ColumnTypes<Attempt> {
  return Object.fromEntries(names.map((name) => [name, ATTEMPT_TYPES[name]])) as ColumnTypes<Attempt>;
}

function saveRuns(update: ReturnType<typeof updateRuns>, checkpoints: readonly Checkpoint[]): Statement {
  const fences = checkpoints.map(({ locked: { id, claimId, epoch, seq, state } }) => ({ id, ofClaimId: claimId, ofEpoch: epoch, ofSeq: seq, ofState: state }));
  const runs = checkpoints.map(({ run }) => run);
  return { statement: update.statement, parameters: [...toArrays(FENCE_TYPES, fences), ...toArrays(update.types, runs)] };
}

/** The UPDATE of these columns, fenced. */
function updateRuns(names: readonly (keyof Run)[], fromFence: Partial<Record<keyof Run, keyof Fence>> = {}) {
  const types = Object.fromEntries(names.map((name) => [name, RUN_TYPES[name]])) as ColumnTypes<Run>;
  const statement = wholly({
    update: `
      UPDATE runs SET ${[
        ...names.map((name) => `${RUN_COLUMNS[name]} = ${asColumn(RUN_TYPES, 'new', name)}`),
        ...Object.entries(fromFence).map(([name, property]) => `${RUN_COLUMNS[name as keyof Run]} = "${property}"`),
      ].join(', ')}
      FROM ${fromArrays({ ...FENCE_TYPES, ...types }, 'new')}
      WHERE runs.id = new.id AND runs.claim_id = "ofClaimId" AND runs.epoch = "ofEpoch" AND runs.seq = "ofSeq" AND runs.state = "ofState"
      RETURNING runs.id, runs.xmin AS stamp`,
    answers: 'id, stamp,',
    otherwise: 'A locked run was changed by somebody else',
  });
  return { types, statement };
}

/**
 * The update of as many rows as its first parameter names: when there were fewer, it fails, and nothing of the transaction can be committed.
 * A statement cannot raise an error of its own, so it reads `otherwise` as a boolean, and that is what Postgres says it cannot read.
 */
function wholly({ update, answers, otherwise }: { update: string; answers: string; otherwise: string }): string {
  return `
  WITH written AS (${update})
  SELECT ${answers} (CASE WHEN (SELECT count(*) FROM written) = cardinality($1::uuid[]) THEN 'true' ELSE '${otherwise}' END)::boolean AS is_whole
  FROM (VALUES (1)) AS once ${answers && 'LEFT JOIN written ON true'}`;
}

function isCursorOnly({ run, locked }: Checkpoint): boolean {
  return run.lastClaimId === locked.claimId && run.lastEpoch === locked.epoch && REST.every((name) => run[name] === locked[name]);
}
