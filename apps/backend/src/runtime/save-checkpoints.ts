import { assignments, type Columns, toRecords } from '../database/columns.js';
import { prepared, type Tx } from '../database/sql.js';
import { storableJson } from '../database/storable-json.js';
import type { Attempt } from '../runs/attempt.entity.js';
import type { Run } from '../runs/run.entity.js';
import { ATTEMPT_COLUMNS, RUN_COLUMNS } from '../runs/run-columns.js';
import { type Checkpoint, storedOf } from './checkpoint.js';

const NEVER_CHANGED = ['id', 'workflowId', 'contactId', 'eventId', 'createdAt'] as const satisfies (keyof Run)[];

/** What a step changes of a run that goes on: most checkpoints are no more than this. */
const CURSOR = ['node', 'seq', 'n', 'takeovers', 'lastClaimId', 'lastEpoch', 'lastSeq'] as const satisfies (keyof Run)[];
const REST = (Object.keys(RUN_COLUMNS) as (keyof Run)[]).filter((name) => !(CURSOR as readonly (keyof Run)[]).includes(name));
const CURSOR_COLUMNS = pick(RUN_COLUMNS, ['id', ...CURSOR]) as Columns<Run>;

/** `old_…`: the run as it was locked, which is the fence. */
const FENCE = `runs.id = new.id AND old.id = new.id
  AND runs.claim_id = old.claim_id AND runs.epoch = old.epoch AND runs.seq = old.seq AND runs.state = old.state`;
const OLD = 'json_to_recordset($2::json) AS old (id uuid, claim_id uuid, epoch integer, seq integer, state text)';
const NEW = 'json_populate_recordset(null::runs, $1::json) new';
const MOVE_CURSORS = `UPDATE runs SET ${assignments(CURSOR_COLUMNS, 'new', ['id'])} FROM ${NEW}, ${OLD} WHERE ${FENCE} RETURNING runs.id`;
const SAVE_RUNS = `UPDATE runs SET ${assignments(RUN_COLUMNS, 'new', NEVER_CHANGED)} FROM ${NEW}, ${OLD} WHERE ${FENCE} RETURNING runs.id`;

const INSERT_ATTEMPTS = 'INSERT INTO attempts SELECT * FROM json_populate_recordset(null::attempts, $1::json)';
const CHANGE_ATTEMPTS = `
  UPDATE attempts SET ${assignments<Attempt>(ATTEMPT_COLUMNS, 'new', ['runId', 'seq', 'n', 'startedAt', 'replayOf'])}
  FROM json_populate_recordset(null::attempts, $1::json) new WHERE attempts.run_id = new.run_id AND attempts.seq = new.seq AND attempts.n = new.n
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
  await saveAttempts(tx, checkpoints);
  const frozen = checkpoints.flatMap((checkpoint) => checkpoint.frozen);
  if (frozen.length > 0) await prepared(tx, INSERT_FROZEN, [storableJson(frozen)]);
  const changed = checkpoints.filter(({ isRunChanged }) => isRunChanged);
  const moved = changed.filter(isCursorOnly);
  await saveRuns(tx, MOVE_CURSORS, CURSOR_COLUMNS, moved);
  await saveRuns(tx, SAVE_RUNS, RUN_COLUMNS, moved.length === 0 ? changed : changed.filter((checkpoint) => !moved.includes(checkpoint)));
  for (const { after } of checkpoints) for (const work of after) await work(tx);
}

async function saveAttempts(tx: Tx, checkpoints: readonly Checkpoint[]): Promise<void> {
  const added: Attempt[] = [];
  const changed: Attempt[] = [];
  for (const checkpoint of checkpoints) {
    for (const attempt of checkpoint.written.values()) {
      const stored = await storedOf(checkpoint, attempt.seq);
      (stored.has(attempt.n) ? changed : added).push(attempt);
    }
  }
  if (added.length > 0) await prepared(tx, INSERT_ATTEMPTS, [toRecords(ATTEMPT_COLUMNS, added)]);
  if (changed.length === 0) return;
  const written = await prepared(tx, CHANGE_ATTEMPTS, [toRecords(ATTEMPT_COLUMNS, changed)]);
  if (written.length !== changed.length) throw new Error('An attempt of a locked run is gone');
}

async function saveRuns(tx: Tx, statement: string, columns: Columns<Run>, checkpoints: readonly Checkpoint[]): Promise<void> {
  if (checkpoints.length === 0) return;
  const fences = checkpoints.map(({ locked: { id, claimId, epoch, seq, state } }) => ({ id, claim_id: claimId, epoch, seq, state }));
  const runs = checkpoints.map(({ run }) => run);
  const saved = await prepared(tx, statement, [toRecords(columns, runs), JSON.stringify(fences)]);
  if (saved.length !== checkpoints.length) throw new Error('A locked run was changed by somebody else');
}

function isCursorOnly({ run, locked }: Checkpoint): boolean {
  return REST.every((name) => run[name] === locked[name]);
}

function pick<Row>(columns: Columns<Row>, names: readonly (keyof Row)[]): Partial<Columns<Row>> {
  return Object.fromEntries(names.map((name) => [name, columns[name]])) as Partial<Columns<Row>>;
}
