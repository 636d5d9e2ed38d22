import { asColumn, type ColumnTypes, fromArrays, namesOf, toArrays } from '../database/columns.js';
import { commitWith, inOneGo, type Statement, type Tx } from '../database/sql.js';
import { storableJson } from '../database/storable-json.js';
import type { Attempt } from '../runs/attempt.entity.js';
import type { Run } from '../runs/run.entity.js';
import { ATTEMPT_COLUMNS, ATTEMPT_TYPES, RUN_COLUMNS, RUN_TYPES } from '../runs/run-columns.js';
import { checking } from '../targets/known-targets.js';
import { type Checkpoint, storedOf } from './checkpoint.js';

/** Of the run as it was locked, which tells it from any that came after. */
type Fence = { id: string; ofClaimId: string; ofEpoch: number; ofSeq: number; ofState: string };
const FENCE_TYPES: ColumnTypes<Fence> = { id: 'uuid', ofClaimId: 'uuid', ofEpoch: 'integer', ofSeq: 'integer', ofState: 'text' };

/** What a step changes of a run that goes on: most checkpoints are no more than this. */
const CURSOR = ['node', 'seq', 'n', 'takeovers', 'lastClaimId', 'lastEpoch', 'lastSeq'] as const satisfies (keyof Run)[];
const NEVER_CHANGED = ['id', 'workflowId', 'contactId', 'eventId', 'createdAt'] as const satisfies (keyof Run)[];
const CHANGED = namesOf(RUN_COLUMNS).filter((name) => !(NEVER_CHANGED as readonly (keyof Run)[]).includes(name));
const REST = CHANGED.filter((name) => !(CURSOR as readonly (keyof Run)[]).includes(name));

export const MOVE_CURSORS = updateRuns(CURSOR);
export const SAVE_RUNS = updateRuns(CHANGED);

const ATTEMPT = namesOf(ATTEMPT_COLUMNS);
const KEPT: (keyof Attempt)[] = ['runId', 'seq', 'n', 'startedAt', 'replayOf'];
const INSERT_ATTEMPTS = `
  INSERT INTO attempts (${ATTEMPT.map((name) => ATTEMPT_COLUMNS[name]).join(', ')})
  SELECT ${ATTEMPT.map((name) => asColumn(ATTEMPT_TYPES, 'new', name)).join(', ')} FROM ${fromArrays(ATTEMPT_TYPES, 'new')}`;
const CHANGE_ATTEMPTS = wholly({
  update: `
    UPDATE attempts SET ${ATTEMPT.filter((name) => !KEPT.includes(name))
      .map((name) => `${ATTEMPT_COLUMNS[name]} = ${asColumn(ATTEMPT_TYPES, 'new', name)}`)
      .join(', ')}
    FROM ${fromArrays(ATTEMPT_TYPES, 'new')} WHERE attempts.run_id = new."runId" AND attempts.seq = new.seq AND attempts.n = new.n
    RETURNING attempts.n`,
  answers: '',
  otherwise: 'An attempt of a locked run is gone',
});
const INSERT_FROZEN = `
  INSERT INTO outbound_requests (run_id, seq, request, idempotency_key, body_hash)
  SELECT run_id, seq, request, idempotency_key, decode(body_hash, 'hex')
  FROM json_to_recordset($1::json) AS new (run_id uuid, seq integer, request jsonb, idempotency_key text, body_hash text)`;

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
    ...(added.length > 0 ? [{ statement: INSERT_ATTEMPTS, parameters: toArrays(ATTEMPT_TYPES, added) }] : []),
    ...(changed.length > 0 ? [{ statement: CHANGE_ATTEMPTS, parameters: toArrays(ATTEMPT_TYPES, changed) }] : []),
    ...(frozen.length > 0 ? [{ statement: INSERT_FROZEN, parameters: [storableJson(frozen)] }] : []),
    ...(moved.size > 0 ? [saveRuns(MOVE_CURSORS, [...moved])] : []),
    ...(others.length > 0 ? [saveRuns(SAVE_RUNS, others)] : []),
  ];
}

function noteStamps(checkpoints: readonly Checkpoint[], answers: readonly unknown[][]): void {
  const stamps = new Map((answers.flat() as { id?: string; stamp?: string }[]).map(({ id, stamp }) => [id, stamp]));
  for (const checkpoint of checkpoints) checkpoint.stamp = stamps.get(checkpoint.run.id) ?? checkpoint.stamp;
}

/** What is written is either new or there already. */
async function sortAttempts(checkpoints: readonly Checkpoint[]): Promise<{ added: Attempt[]; changed: Attempt[] }> {
  const added: Attempt[] = [];
  const changed: Attempt[] = [];
  for (const checkpoint of checkpoints) {
    for (const attempt of checkpoint.written.values()) {
      const stored = await storedOf(checkpoint, attempt.seq);
      (stored.has(attempt.n) ? changed : added).push(attempt);
    }
  }
  return { added, changed };
}

function saveRuns(update: ReturnType<typeof updateRuns>, checkpoints: readonly Checkpoint[]): Statement {
  const fences = checkpoints.map(({ locked: { id, claimId, epoch, seq, state } }) => ({ id, ofClaimId: claimId, ofEpoch: epoch, ofSeq: seq, ofState: state }));
  const runs = checkpoints.map(({ run }) => run);
  return { statement: update.statement, parameters: [...toArrays(FENCE_TYPES, fences), ...toArrays(update.types, runs)] };
}

/** The UPDATE of these columns, fenced. */
function updateRuns(names: readonly (keyof Run)[]) {
  const types = Object.fromEntries(names.map((name) => [name, RUN_TYPES[name]])) as ColumnTypes<Run>;
  const statement = wholly({
    update: `
      UPDATE runs SET ${names.map((name) => `${RUN_COLUMNS[name]} = ${asColumn(RUN_TYPES, 'new', name)}`).join(', ')}
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
  return REST.every((name) => run[name] === locked[name]);
}
