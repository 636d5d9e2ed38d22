import { afterAll, beforeAll, beforeEach, expect, test, vi } from 'vitest';
import { newId } from '../../src/database/new-id.js';
import { change, rows, transact } from '../../src/database/sql.js';
import { type BackendForTest, backendForTest } from '../backend-for-test.js';
import { line, publish, tag } from '../runtime/hand-worker.js';
import { anotherBackend, BY_HAND, deleteRuns, insertRuns, sweeperOf } from './sweeper-bench.js';

let onward: BackendForTest;
let [plain, paused, resumed] = ['', '', ''];
beforeAll(async () => {
  onward = await backendForTest({ ...BY_HAND, AUTOMATIONS_LEASE_MS: '2000' });
  plain = await publish(onward, line(tag('a')));
  paused = await publish(onward, line(tag('a')));
  resumed = await publish(onward, line(tag('a')));
  await onward.api('POST', `/workflows/${paused}/pause`);
  // Nothing lapses in the first lease.
  await vi.waitFor(async () => expect(await passAndTell()).toEqual(ALL), { timeout: 10_000 });
});
afterAll(() => onward?.close());
beforeEach(async () => {
  await deleteRuns(onward);
  await change(onward.source, 'DELETE FROM messages');
  await change(onward.source, 'DELETE FROM notices');
});

const ALL = ['hold', 'lapse', 'letGo', 'messages', 'notices', 'wake', 'wakeLost'];

/** Lays out something to do for each duty. Answers, by duty, the question whether it was done. */
async function layOut(): Promise<Record<string, string>> {
  const [lapsed] = await insertRuns(onward, plain, 1, { state: `'running'`, due: 'NULL', leaseUntil: `clock_timestamp() - interval '1 min'` });
  const [due] = await insertRuns(onward, plain, 1);
  const [lost] = await insertRuns(onward, plain, 1, { woken: `clock_timestamp() - interval '1 min'` });
  const [toHold] = await insertRuns(onward, paused, 1);
  await change(onward.source, 'UPDATE workflows SET let_go_at = NULL');
  const [held] = await insertRuns(onward, resumed, 1, { held: 'true', woken: 'clock_timestamp()' });
  const [message, notice] = [newId(), newId()];
  await change(
    onward.source,
    `INSERT INTO messages (id, is_transactional, message_id_header, from_mailbox, to_mailbox, subject, text)
     VALUES ($1, false, '<x@example.test>', '{"name":"","address":"onward@example.test"}', '{"name":"","address":"ada@example.test"}', 'Hi', 'Hello')`,
    [message],
  );
  await change(onward.source, `INSERT INTO notices (id, run_id, seq, state, node, failure) VALUES ($1, $2, 1, 'failed', 'a', '{"code":"x","message":"y"}')`, [
    notice,
    due?.id,
  ]);
  return {
    lapse: `SELECT 1 FROM runs WHERE id = '${lapsed?.id}' AND state = 'pending'`,
    hold: `SELECT 1 FROM runs WHERE id = '${toHold?.id}' AND is_held`,
    letGo: `SELECT 1 FROM runs WHERE id = '${held?.id}' AND NOT is_held`,
    wake: `SELECT 1 FROM runs WHERE id = '${due?.id}' AND woken_at IS NOT NULL`,
    wakeLost: `SELECT 1 FROM runs WHERE id = '${lost?.id}' AND woken_at > clock_timestamp() - interval '30 s'`,
    messages: `SELECT 1 FROM messages WHERE id = '${message}' AND woken_at IS NOT NULL`,
    notices: `SELECT 1 FROM notices WHERE id = '${notice}' AND sent_at IS NOT NULL`,
  };
}

async function done(questions: Record<string, string>): Promise<string[]> {
  const answers: string[] = [];
  for (const [duty, question] of Object.entries(questions)) if ((await rows(onward.source, question)).length > 0) answers.push(duty);
  return answers.sort();
}

/** One pass over something to do for each duty; answers which were done. */
async function passAndTell(): Promise<string[]> {
  const questions = await layOut();
  await sweeperOf(onward.backend).sweepFully();
  return done(questions);
}

test.each([
  ['lapse', 'ALTER TABLE runs RENAME COLUMN takeovers TO gone', 'ALTER TABLE runs RENAME COLUMN gone TO takeovers'],
  ['letGo', 'ALTER TABLE workflows RENAME COLUMN let_go_at TO gone', 'ALTER TABLE workflows RENAME COLUMN gone TO let_go_at'],
  ['messages', 'ALTER TABLE messages RENAME TO gone', 'ALTER TABLE gone RENAME TO messages'],
  ['notices', 'ALTER TABLE notices RENAME TO gone', 'ALTER TABLE gone RENAME TO notices'],
  [
    'hold',
    `CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'no holding today'; END $$;
     CREATE TRIGGER refuse BEFORE UPDATE ON runs FOR EACH ROW WHEN (NEW.is_held AND NOT OLD.is_held) EXECUTE FUNCTION refuse()`,
    'DROP FUNCTION refuse CASCADE',
  ],
  [
    'wakeLost',
    `CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'nothing is lost today'; END $$;
     CREATE TRIGGER refuse BEFORE UPDATE ON runs FOR EACH ROW WHEN (OLD.woken_at < NEW.woken_at AND OLD.claim_id = NEW.claim_id) EXECUTE FUNCTION refuse()`,
    'DROP FUNCTION refuse CASCADE',
  ],
  [
    'wake',
    `CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'no waking today'; END $$;
     CREATE TRIGGER refuse BEFORE UPDATE ON runs FOR EACH ROW WHEN (OLD.woken_at IS NULL AND OLD.claim_id = NEW.claim_id AND NEW.woken_at IS NOT NULL) EXECUTE FUNCTION refuse()`,
    'DROP FUNCTION refuse CASCADE',
  ],
])('when %s cannot do its work the other duties do theirs, and it does so in the next pass after it can', async (broken, breakIt, mendIt) => {
  const questions = await layOut();
  await rows(onward.source, breakIt);
  await sweeperOf(onward.backend).sweepFully();
  await rows(onward.source, mendIt);
  expect(await done(questions)).toEqual(ALL.filter((duty) => duty !== broken));
  await sweeperOf(onward.backend).sweepFully();
  expect(await done(questions)).toEqual(ALL);
});

test('a stop in the middle of a pass waits for the duty in hand, and no other begins', async () => {
  const other = await anotherBackend(onward);
  try {
    const sweeper = sweeperOf(other);
    await sweeper.sweepFully();
    let held: { id: string } | undefined;
    let stopped: Promise<void> | undefined;
    await transact(onward.source, async (tx) => {
      await rows(tx, 'LOCK TABLE runs IN ACCESS EXCLUSIVE MODE');
      // Held, though its workflow is active: the duty after the one in hand would let go of it.
      [held] = await insertRuns({ source: tx }, plain, 1, { held: 'true' });
      void sweeper.sweepFully();
      await vi.waitFor(async () => expect(await rows(tx, 'SELECT 1 FROM pg_locks WHERE NOT granted')).not.toEqual([]), { timeout: 30_000 });
      stopped = sweeper.onModuleDestroy();
    });
    await stopped;
    expect(await rows(onward.source, 'SELECT is_held AS "isHeld" FROM runs WHERE id = $1', [held?.id])).toEqual([{ isHeld: true }]);
  } finally {
    await other.close();
  }
});
