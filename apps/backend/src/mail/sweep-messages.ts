import type { MailJob } from '@onward/contracts/queues';
import type { DataSource } from 'typeorm';
import { outboxOf, type Teller, transactAndTell } from '../database/outbox.js';
import { rows } from '../database/sql.js';
import { Message } from './message.entity.js';
import { markUncertain } from './settle-message.js';

/** A prepared message is enqueued again when the queue was told of it longer ago than this, in ms. */
export const REWAKE_AFTER_MS = 4_000;
const LAPSES_A_BATCH = 100;
const JOBS_A_BATCH = 500;
const JOBS_A_PASS = 2_000;

/**
 * One pass over the messages that stand still: begun ones whose time is over become uncertain, prepared ones nobody was told of lately are
 * enqueued, oldest first, unless the queue is away. Any number of sweepers may pass at once. Both times are of the real clock.
 */
export async function sweepMessages(
  source: DataSource,
  teller: Teller,
  { isQueueThere }: { isQueueThere: boolean },
): Promise<{ lapsed: number; enqueued: number }> {
  return { lapsed: await lapseBegun(source, teller), enqueued: isQueueThere ? await enqueuePrepared(source, teller) : 0 };
}

async function lapseBegun(source: DataSource, teller: Teller): Promise<number> {
  let lapsed = 0;
  for (;;) {
    const found = await lapseBatch(source, teller);
    lapsed += found;
    if (found < LAPSES_A_BATCH) return lapsed;
  }
}

/** Locks the runs first, in id order, then the messages; what somebody else holds is being settled and is left to them. */
function lapseBatch(source: DataSource, teller: Teller): Promise<number> {
  return transactAndTell(source, teller, async (tx) => {
    const candidates = await rows<{ id: string; runId: string | null }>(
      tx,
      `SELECT id, run_id AS "runId" FROM messages WHERE state = 'begun' AND begun_until < clock_timestamp() ORDER BY id LIMIT $1`,
      [LAPSES_A_BATCH],
    );
    if (candidates.length === 0) return 0;
    const runIds = candidates.flatMap(({ runId }) => runId ?? []);
    const locked = await rows<{ id: string }>(tx, 'SELECT id FROM runs WHERE id = ANY ($1) ORDER BY id FOR UPDATE SKIP LOCKED', [runIds]);
    const messages = await tx
      .createQueryBuilder(Message, 'm')
      .where(`m.id = ANY (:ids) AND m.state = 'begun' AND m.begun_until < clock_timestamp()`, { ids: candidates.map(({ id }) => id) })
      .andWhere('(m.run_id IS NULL OR m.run_id = ANY (:locked) OR NOT EXISTS (SELECT FROM runs r WHERE r.id = m.run_id))', {
        locked: locked.map(({ id }) => id),
      })
      .orderBy('m.id')
      .setLock('pessimistic_write')
      .setOnLocked('skip_locked')
      .getMany();
    for (const message of messages) {
      await markUncertain(tx, message, { code: 'mail_uncertain', message: 'The mail gateway did not say in time what became of the message' });
    }
    return messages.length;
  });
}

async function enqueuePrepared(source: DataSource, teller: Teller): Promise<number> {
  let enqueued = 0;
  while (enqueued < JOBS_A_PASS) {
    const found = await enqueueBatch(source, teller);
    enqueued += found;
    if (found < JOBS_A_BATCH) break;
  }
  return enqueued;
}

function enqueueBatch(source: DataSource, teller: Teller): Promise<number> {
  return transactAndTell(source, teller, async (tx) => {
    const jobs = await rows<MailJob>(
      tx,
      `UPDATE messages SET woken_at = clock_timestamp()
        WHERE id IN (SELECT id FROM messages
                      WHERE state = 'prepared' AND (woken_at IS NULL OR woken_at < clock_timestamp() - $1 * interval '1 millisecond')
                      ORDER BY id LIMIT $2 FOR UPDATE SKIP LOCKED)
       RETURNING id AS "messageId", try`,
      [REWAKE_AFTER_MS, JOBS_A_BATCH],
    );
    outboxOf(tx).mail.push(...jobs);
    return jobs.length;
  });
}
