import { AUTOMATIONS_QUEUE, QUEUE_PREFIX } from '@onward/contracts/queues';
import { Queue } from 'bullmq';
import { type Outbox, type PlannedWakeUp, transactAndTell } from '../../src/database/outbox.js';
import { rows, type Tx } from '../../src/database/sql.js';
import { type Backend, createBackend } from '../../src/create-backend.js';
import { Queues } from '../../src/operations/queues.js';
import type { Settings } from '../../src/settings.js';
import { Sweeper } from '../../src/sweeper/sweeper.js';
import type { BackendForTest } from '../backend-for-test.js';

/** Its own timer never fires within a test: each pass is asked for. Only the pass at the start of a backend comes by itself. */
export const BY_HAND = { AUTOMATIONS_SWEEP_INTERVAL_MS: '1000000' };

export type Row = { id: string; claimId: string; nth: number };

/** Columns of rows to insert, as SQL expressions in which `nth` counts from 1. Not given: pending, due now, never woken, not held. */
export type RowColumns = { state?: string; due?: string; woken?: string; held?: string; leaseUntil?: string; takeovers?: string };

/** Writes runs of a published workflow straight into the table, at its trigger. Answers them in the order of `nth`. */
export async function insertRuns(
  { source }: { source: BackendForTest['source'] | Tx },
  workflowId: string,
  count: number,
  given: RowColumns = {},
): Promise<Row[]> {
  const { state = `'pending'`, due = 'onward_now()', woken = 'NULL', held = 'false', leaseUntil = 'NULL', takeovers = '0' } = given;
  const made = await rows<Row>(
    source,
    `WITH numbered AS (SELECT nth, gen_random_uuid() AS id, gen_random_uuid() AS claim_id FROM generate_series(1, $2) AS nth),
     made AS (
       INSERT INTO runs (id, claim_id, workflow_id, version_id, node, seq, state, due_at, woken_at, is_held, lease_until, takeovers)
       SELECT numbered.id, numbered.claim_id, workflows.id, version_id, 'start', 1, ${state}, ${due}, ${woken}, ${held}, ${leaseUntil}, ${takeovers}
       FROM numbered, workflows WHERE workflows.id = $1)
     SELECT id, claim_id AS "claimId", nth FROM numbered ORDER BY nth`,
    [workflowId, count],
  );
  return made;
}

export async function deleteRuns({ source }: { source: BackendForTest['source'] }): Promise<void> {
  await rows(source, 'DELETE FROM runs');
}

export const sweeperOf = ({ app }: Backend): Sweeper => app.get(Sweeper, { strict: false });
export const queuesOf = ({ app }: Backend): Queues => app.get(Queues, { strict: false });

/** Does one duty in a transaction of its own and answers what the queue would be told, which it is not. */
export async function duty(source: BackendForTest['source'], work: (tx: Tx) => Promise<number>): Promise<{ count: number; wakeUps: PlannedWakeUp[] }> {
  const { teller, wakeUps } = listen();
  return { count: await transactAndTell(source, teller, work), wakeUps };
}

/** A queue that takes everything and keeps what it was told. `standing` holds the claims it says it has an entry of. */
export function listen() {
  const wakeUps: PlannedWakeUp[] = [];
  const standing = new Set<string>();
  const teller = { tell: (outbox: Outbox) => void wakeUps.push(...outbox.wakeUps), takes: () => true, standing: async () => standing };
  return { teller, wakeUps, standing };
}

/** Room enough for all that a test lays out. */
export const ROOM = { due: 2_000, takesDelayed: true, shareOf: () => 2_000 };

/** A latch: `open` lets everybody pass who waits for `passed`. */
export function latch(): { open: () => void; passed: Promise<void> } {
  let open: () => void = () => undefined;
  const passed = new Promise<void>((resolve) => {
    open = resolve;
  });
  return { open, passed };
}

/** Another backend on the database and the Valkey of this one. */
export function anotherBackend({ settings }: BackendForTest, changed: Partial<Settings> = {}): Promise<Backend> {
  return createBackend({ ...settings, port: 0, rpcPort: 0, ...changed });
}

/** The queue as it stands on Valkey. */
export function readQueue(valkeyUrl: string) {
  const queue = new Queue(AUTOMATIONS_QUEUE, { connection: { url: valkeyUrl }, prefix: QUEUE_PREFIX });
  return {
    waiting: async () => (await queue.getJobs(['waiting', 'prioritized'])).map(({ id, data }) => ({ id, data: data as unknown })),
    /** `at` is when the entry is handed out, by the real clock, in ms. */
    delayed: async () =>
      (await queue.getJobs(['delayed'])).map(({ id, data, delay, timestamp }) => ({ id, data: data as unknown, delay, at: timestamp + delay })),
    close: () => queue.close(),
  };
}
