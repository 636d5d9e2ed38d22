import { assignments, toRecords } from '../database/columns.js';
import { prepared, type Tx } from '../database/sql.js';
import { storableJson } from '../database/storable-json.js';
import type { Attempt } from '../runs/attempt.entity.js';
import type { Run } from '../runs/run.entity.js';
import { ATTEMPT_COLUMNS, RUN_COLUMNS } from '../runs/run-columns.js';
import { type Checkpoint, storedOf } from './checkpoint.js';

const NEVER_CHANGED = ['id', 'workflowId', 'contactId', 'eventId', 'createdAt'] as const satisfies (keyof Run)[];

/** What a step changes of a run that goes on, in the order of MOVE_CURSORS: most checkpoints are no more than this. */
const CURSOR = ['node', 'seq', 'n', 'takeovers', 'lastClaimId', 'lastEpoch', 'lastSeq'] as const satisfies (keyof Run)[];
const REST = (Object.keys(RUN_COLUMNS) as (keyof Run)[]).filter((name) => !(CURSOR as readonly (keyof Run)[]).includes(name));

/** `old`: the run as it was locked. It is the fence of both statements. */
const FENCE = 'runs.claim_id = old.claim_id AND runs.epoch = old.epoch AND runs.seq = old.seq AND runs.state = old.state';
/** By arrays: taking a row out of JSON costs Postgres twice as much as writing it. */
const MOVE_CURSORS = `
  UPDATE runs SET node = old.to_node, seq = old.to_seq, n = old.to_n, takeovers = old.to_takeovers,
    last_claim_id = old.last_claim_id, last_epoch = old.last_epoch, last_seq = old.last_seq
  FROM unnest($1::uuid[], $2::uuid[], $3::integer[], $4::integer[], $5::text[], $6::text[], $7::integer[], $8::smallint[], $9::smallint[], $10::uuid[], $11::integer[], $12::integer[])
    AS old (id, claim_id, epoch, seq, state, to_node, to_seq, to_n, to_takeovers, last_claim_id, last_epoch, last_seq)
  WHERE runs.id = old.id AND ${FENCE} RETURNING runs.id`;
const SAVE_RUNS = `
  UPDATE runs SET ${assignments(RUN_COLUMNS, 'new', NEVER_CHANGED)}
  FROM json_populate_recordset(null::runs, $1::json) new,
       json_to_recordset($2::json) AS old (id uuid, claim_id uuid, epoch integer, seq integer, state text)
  WHERE runs.id = new.id AND old.id = new.id AND ${FENCE} RETURNING runs.id`;

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
  const moved = new Set(changed.filter(isCursorOnly));
  const others = changed.filter((checkpoint) => !moved.has(checkpoint));
  if (moved.size > 0) await moveCursors(tx, [...moved]);
  if (others.length > 0) await saveRuns(tx, others);
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

async function moveCursors(tx: Tx, checkpoints: readonly Checkpoint[]): Promise<void> {
  const locked = checkpoints.map((checkpoint) => checkpoint.locked);
  const runs = checkpoints.map(({ run }) => run);
  const saved = await prepared(tx, MOVE_CURSORS, [
    locked.map(({ id }) => id),
    locked.map(({ claimId }) => claimId),
    locked.map(({ epoch }) => epoch),
    locked.map(({ seq }) => seq),
    locked.map(({ state }) => state),
    ...CURSOR.map((name) => runs.map((run) => run[name])),
  ]);
  checkAll(saved, checkpoints);
}

async function saveRuns(tx: Tx, checkpoints: readonly Checkpoint[]): Promise<void> {
  const fences = checkpoints.map(({ locked: { id, claimId, epoch, seq, state } }) => ({ id, claim_id: claimId, epoch, seq, state }));
  const runs = checkpoints.map(({ run }) => run);
  checkAll(await prepared(tx, SAVE_RUNS, [toRecords(RUN_COLUMNS, runs), JSON.stringify(fences)]), checkpoints);
}

function checkAll(saved: readonly unknown[], checkpoints: readonly Checkpoint[]): void {
  if (saved.length !== checkpoints.length) throw new Error('A locked run was changed by somebody else');
}

function isCursorOnly({ run, locked }: Checkpoint): boolean {
  return REST.every((name) => run[name] === locked[name]);
}
