import { asColumn, type ColumnTypes, fromArrays, namesOf, toArrays } from '../database/columns.js';
import { prepared, type Tx } from '../database/sql.js';
import { storableJson } from '../database/storable-json.js';
import type { Attempt } from '../runs/attempt.entity.js';
import type { Run } from '../runs/run.entity.js';
import { ATTEMPT_COLUMNS, ATTEMPT_TYPES, RUN_COLUMNS, RUN_TYPES } from '../runs/run-columns.js';
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
const CHANGE_ATTEMPTS = `
  UPDATE attempts SET ${ATTEMPT.filter((name) => !KEPT.includes(name))
    .map((name) => `${ATTEMPT_COLUMNS[name]} = ${asColumn(ATTEMPT_TYPES, 'new', name)}`)
    .join(', ')}
  FROM ${fromArrays(ATTEMPT_TYPES, 'new')} WHERE attempts.run_id = new."runId" AND attempts.seq = new.seq AND attempts.n = new.n
  RETURNING attempts.n`;
const INSERT_FROZEN = `
  INSERT INTO outbound_requests (run_id, seq, request, idempotency_key, body_hash)
  SELECT run_id, seq, request, idempotency_key, decode(body_hash, 'hex')
  FROM json_to_recordset($1::json) AS new (run_id uuid, seq integer, request jsonb, idempotency_key text, body_hash text)`;

/**
 * Writes what became of locked runs, however many: attempts, frozen requests, then the cursors, fenced by what was locked, then what is to be
 * done after. Throws when a fence does not hold, which a held lock makes impossible: the transaction must not commit then.
 */
export async function saveCheckpoints(tx: Tx, checkpoints: readonly Checkpoint[]): Promise<void> {
  const { added, changed } = await sortAttempts(checkpoints);
  const frozen = checkpoints.flatMap((checkpoint) => checkpoint.frozen);
  const changedRuns = checkpoints.filter(({ isRunChanged }) => isRunChanged);
  const moved = new Set(changedRuns.filter(isCursorOnly));
  const others = changedRuns.filter((checkpoint) => !moved.has(checkpoint));
  // None of them needs to know what came of another.
  await Promise.all([
    added.length > 0 && prepared(tx, INSERT_ATTEMPTS, toArrays(ATTEMPT_TYPES, added)),
    changed.length > 0 && changeAttempts(tx, changed),
    frozen.length > 0 && prepared(tx, INSERT_FROZEN, [storableJson(frozen)]),
    moved.size > 0 && saveRuns(tx, MOVE_CURSORS, [...moved]),
    others.length > 0 && saveRuns(tx, SAVE_RUNS, others),
  ]);
  for (const { after } of checkpoints) for (const work of after) await work(tx);
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

async function changeAttempts(tx: Tx, changed: readonly Attempt[]): Promise<void> {
  const written = await prepared(tx, CHANGE_ATTEMPTS, toArrays(ATTEMPT_TYPES, changed));
  if (written.length !== changed.length) throw new Error('An attempt of a locked run is gone');
}

async function saveRuns(tx: Tx, update: ReturnType<typeof updateRuns>, checkpoints: readonly Checkpoint[]): Promise<void> {
  const fences = checkpoints.map(({ locked: { id, claimId, epoch, seq, state } }) => ({ id, ofClaimId: claimId, ofEpoch: epoch, ofSeq: seq, ofState: state }));
  const runs = checkpoints.map(({ run }) => run);
  const saved = await prepared<{ id: string; stamp: string }>(tx, update.statement, [...toArrays(FENCE_TYPES, fences), ...toArrays(update.types, runs)]);
  if (saved.length !== checkpoints.length) throw new Error('A locked run was changed by somebody else');
  const stamps = new Map(saved.map(({ id, stamp }) => [id, stamp]));
  for (const checkpoint of checkpoints) checkpoint.stamp = stamps.get(checkpoint.run.id) as string;
}

/** The UPDATE of these columns, fenced. */
function updateRuns(names: readonly (keyof Run)[]) {
  const types = Object.fromEntries(names.map((name) => [name, RUN_TYPES[name]])) as ColumnTypes<Run>;
  const statement = `
    UPDATE runs SET ${names.map((name) => `${RUN_COLUMNS[name]} = ${asColumn(RUN_TYPES, 'new', name)}`).join(', ')}
    FROM ${fromArrays({ ...FENCE_TYPES, ...types }, 'new')}
    WHERE runs.id = new.id AND runs.claim_id = "ofClaimId" AND runs.epoch = "ofEpoch" AND runs.seq = "ofSeq" AND runs.state = "ofState"
    RETURNING runs.id, runs.xmin AS stamp`;
  return { types, statement };
}

function isCursorOnly({ run, locked }: Checkpoint): boolean {
  return REST.every((name) => run[name] === locked[name]);
}
