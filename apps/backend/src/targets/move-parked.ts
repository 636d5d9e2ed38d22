import { targetKey } from '@onward/contracts/targets';
import { change, rows, type Tx } from '../database/sql.js';
import { PARKED } from './parked.js';
import type { Target } from './target.entity.js';

const MOST_AT_ONCE = 5_000;

/**
 * Gives parked runs whose time has passed the time at which their target is tried next, and none at all where only an operator can end it, so
 * that what people are shown holds; of a closed target those without a time are due by now. Nothing is woken by it, and a run keeps its claimId, of which no queue was told. Without `id` all
 * blocked targets are looked at. Answers how many runs it moved.
 */
export async function moveParked(tx: Tx, id?: string): Promise<number> {
  const blocked = await rows<Pick<Target, 'origin' | 'state' | 'blockedUntil'>>(
    tx,
    `SELECT origin, state, blocked_until AS "blockedUntil" FROM targets WHERE state <> 'closed' AND ($1::uuid IS NULL OR id = $1) ORDER BY id`,
    [id ?? null],
  );
  let count = await change(
    tx,
    `UPDATE runs SET due_at = onward_now() WHERE id IN (
       SELECT id FROM runs WHERE ${PARKED} AND due_at IS NULL
         AND wait_key IN (SELECT '${targetKey('')}' || origin FROM targets WHERE state = 'closed' AND ($1::uuid IS NULL OR id = $1)) LIMIT $2 FOR UPDATE SKIP LOCKED)`,
    [id ?? null, MOST_AT_ONCE],
  );
  for (const { origin, state, blockedUntil } of blocked) {
    const isStale = state === 'paused' ? 'due_at IS NOT NULL' : '(due_at IS NULL OR (due_at <= onward_now() AND due_at < $2))';
    count += await change(
      tx,
      `UPDATE runs SET due_at = $2 WHERE id IN (
         SELECT id FROM runs WHERE ${PARKED} AND wait_key = $1 AND ${isStale} ORDER BY due_at, id LIMIT $3 FOR UPDATE SKIP LOCKED)`,
      [targetKey(origin), blockedUntil, MOST_AT_ONCE],
    );
  }
  return count;
}
