import { RUN_STATES } from '@onward/contracts/patterns';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { attempt, change, rows, transact, type Tx } from '../../src/database/sql.js';
import { type BackendForTest, backendForTest } from '../backend-for-test.js';
import { line, publish, tag } from '../runtime/hand-worker.js';

let onward: BackendForTest;
let workflowId: string;
beforeAll(async () => {
  onward = await backendForTest({ AUTOMATIONS_SWEEP_INTERVAL_MS: '1000000' });
  workflowId = await publish(onward, line(tag('a')));
});
afterAll(() => onward?.close());

/** What a column holds when it is set. */
const VALUES = {
  due_at: 'now()',
  lease_until: 'now()',
  ended_at: 'now()',
  wait_reason: `'event'`,
  wait_key: `'event:x'`,
  reentry_key: 'gen_random_uuid()',
} as const;
type Column = keyof typeof VALUES;
const COLUMNS = Object.keys(VALUES) as Column[];

/** By state: what must be set, what must not, and whether one of two must be. What is not named may be either. */
const RULES: Record<string, { must: Column[]; never: Column[]; oneOf?: Column[] }> = {
  pending: { must: ['due_at'], never: ['lease_until', 'ended_at'] },
  running: { must: ['lease_until'], never: ['due_at', 'ended_at'] },
  waiting: { must: ['wait_reason'], never: ['lease_until', 'ended_at'], oneOf: ['due_at', 'wait_key'] },
  awaiting_approval: { must: ['wait_key'], never: ['lease_until', 'ended_at'] },
  retrying: { must: ['due_at'], never: ['lease_until', 'ended_at'] },
  succeeded: { must: ['ended_at'], never: ['due_at', 'lease_until', 'reentry_key'] },
  failed: { must: ['ended_at'], never: ['due_at', 'lease_until', 'reentry_key'] },
  dead_lettered: { must: ['ended_at'], never: ['due_at', 'lease_until', 'reentry_key'] },
  cancelled: { must: ['ended_at'], never: ['due_at', 'lease_until', 'reentry_key'] },
};

const codeOf = (error: unknown): unknown => (error as { code?: unknown }).code;

/** Tries a row and undoes it. Answers `kept`, or the code of what Postgres says. */
async function tryRun(tx: Tx, state: string, set: readonly Column[]): Promise<unknown> {
  const tried = await attempt(tx, async () => {
    await change(
      tx,
      `INSERT INTO runs (id, claim_id, workflow_id, version_id, node, seq, state${set.map((column) => `, ${column}`).join('')})
       SELECT gen_random_uuid(), gen_random_uuid(), id, version_id, 'start', 1, $2${set.map((column) => `, ${VALUES[column]}`).join('')} FROM workflows WHERE id = $1`,
      [workflowId, state],
    );
  });
  return tried.ok ? 'kept' : codeOf(tried.error);
}

const everyCombination = Array.from({ length: 2 ** COLUMNS.length }, (_, bits) => COLUMNS.filter((_column, place) => bits & (1 << place)));

test('there is a rule for every state', () => {
  expect(Object.keys(RULES).sort()).toEqual([...RUN_STATES].sort());
});

test.each(Object.entries(RULES))('a run that is %s has the columns of its state and no others', async (state, { must, never, oneOf }) => {
  const isRight = (set: readonly Column[]) =>
    must.every((column) => set.includes(column)) && !never.some((column) => set.includes(column)) && (oneOf?.some((column) => set.includes(column)) ?? true);
  const answers = await transact(onward.source, async (tx) => {
    const found: [string, unknown][] = [];
    for (const set of everyCombination) found.push([set.join(' + '), await tryRun(tx, state, set)]);
    await rows(tx, 'DELETE FROM runs');
    return found;
  });
  expect(answers).toEqual(everyCombination.map((set) => [set.join(' + '), isRight(set) ? 'kept' : '23514']));
});

test.each(['', 'PENDING', 'paused', 'done'])('a run cannot be "%s"', async (state) => {
  const answers = await transact(onward.source, async (tx) => {
    const found: unknown[] = [];
    for (const set of everyCombination) found.push(await tryRun(tx, state, set));
    return found;
  });
  expect(new Set(answers)).toEqual(new Set(['23514']));
});

test('every other CHECK of the schema refuses what it is there to refuse', async () => {
  const message = (columns: string, values: string) =>
    `INSERT INTO messages (id, is_transactional, message_id_header, from_mailbox, to_mailbox, subject, ${columns}) VALUES (gen_random_uuid(), false, '<x>', '{}', '{}', 'x', ${values})`;
  const workflow = (columns: string, values: string) =>
    `INSERT INTO workflows (id, name, draft, settings, ${columns}) VALUES (gen_random_uuid(), 'x', '{}', '{}', ${values})`;
  const breaches: Record<string, string> = {
    attempts_status: `INSERT INTO attempts (run_id, seq, n, node, node_type, status, epoch) VALUES (gen_random_uuid(), 1, 1, 'a', 'action', 'begun', 1)`,
    clock_offset_one_row: `INSERT INTO clock_offset (one) VALUES (false)`,
    contacts_email_lower: `INSERT INTO contacts (id, email) VALUES (gen_random_uuid(), 'Ada@example.test')`,
    contacts_identity: 'INSERT INTO contacts (id) VALUES (gen_random_uuid())',
    messages_begun_until: message('state', `'begun'`),
    messages_state: message('state', `'bounced'`),
    suppressions_email_lower: `INSERT INTO suppressions (email, reason) VALUES ('Ada@example.test', 'bounce')`,
    suppressions_reason: `INSERT INTO suppressions (email, reason) VALUES ('ada@example.test', 'whim')`,
    targets_blocked_until: `INSERT INTO targets (id, origin, state) VALUES (gen_random_uuid(), 'http://a.test', 'open')`,
    targets_limits: `INSERT INTO targets (id, origin, rate_per_second) VALUES (gen_random_uuid(), 'http://a.test', 0)`,
    targets_state: `INSERT INTO targets (id, origin, state) VALUES (gen_random_uuid(), 'http://a.test', 'ajar')`,
    workflows_active_has_version: workflow('status', `'active'`),
    workflows_archived_is_not_active: workflow('status, version_id, archived_at', `'active', gen_random_uuid(), now()`),
    workflows_status: workflow('status, version_id', `'archived', gen_random_uuid()`),
  };
  const checks = await rows<{ name: string }>(
    onward.source,
    `SELECT conname AS name FROM pg_constraint WHERE contype = 'c' AND connamespace = 'public'::regnamespace AND conname <> 'runs_state_columns' ORDER BY conname`,
  );
  expect(checks.map(({ name }) => name)).toEqual(Object.keys(breaches).sort());
  await transact(onward.source, async (tx) => {
    await rows(tx, `SELECT set_config('onward.test_clock', 'on', true)`);
    await rows(tx, 'ALTER TABLE clock_offset DISABLE TRIGGER clock_offset_guard');
    for (const [name, breach] of Object.entries(breaches)) {
      const tried = await attempt(tx, () => rows(tx, breach));
      expect([name, tried.ok ? 'kept' : (tried.error as { driverError?: { constraint?: string } }).driverError?.constraint]).toEqual([name, name]);
    }
    await rows(tx, 'ALTER TABLE clock_offset ENABLE TRIGGER clock_offset_guard');
  });
});
