import { createHmac } from 'node:crypto';
import type { DataSource } from 'typeorm';
import { change, rows } from '../database/sql.js';

/** A first request that left no answer for this long is taken for crashed and frees its key. */
const ABANDONED_AFTER = `interval '1 minute'`;
/** An answer is kept this long. */
const KEPT_FOR = `interval '24 hours'`;
/** Old keys removed with each new one: more than come in, and never many at once. */
const PRUNED_AT_ONCE = 20;

export type KeyRef = { callerId: string; key: string; requestHash: Buffer };

/**
 * - `first`: the caller is to do the work and then call `keepAnswer` or `freeKey` with this `since`.
 * - `repeat`: the answer of the first. `running`: the first is still at work. `other_request`: the key belongs to another request.
 */
export type Reservation =
  | { kind: 'first'; since: string }
  | { kind: 'repeat'; status: number; body: unknown }
  | { kind: 'running' }
  | { kind: 'other_request' };

/**
 * Two requests are the same when method, path with query, and body are; how JSON is spaced does not count. Keyed (HMAC-SHA256, RFC 2104): a body may
 * hold a secret that is short enough to be guessed from a plain hash.
 */
export function requestHash(method: string, url: string, body: unknown, secretKey: string): Buffer {
  const hash = createHmac('sha256', secretKey).update(`idempotency\n${method}\n${url}\n`);
  return (Buffer.isBuffer(body) ? hash.update(body) : hash.update(JSON.stringify(body) ?? '')).digest();
}

/**
 * Reserves a key for its first request, or tells what became of it. One statement decides, so of many that come at once one is first.
 * Not promised: that work whose process died before it could keep its answer did not happen.
 */
export async function reserveKey(source: DataSource, { callerId, key, requestHash: hash }: KeyRef): Promise<Reservation> {
  await prune(source);
  const [reserved] = await rows<{ since: string }>(
    source,
    `INSERT INTO idempotency_keys AS held (api_key_id, key, request_hash) VALUES ($1, $2, $3)
     ON CONFLICT (api_key_id, key) DO UPDATE SET request_hash = excluded.request_hash, status = NULL, body = NULL, created_at = now()
     WHERE held.created_at <= now() - ${KEPT_FOR} OR (held.status IS NULL AND held.created_at <= now() - ${ABANDONED_AFTER})
     RETURNING created_at::text AS since`,
    [callerId, key, hash],
  );
  if (reserved) return { kind: 'first', since: reserved.since };
  const [held] = await rows<{ request_hash: Buffer; status: number | null; body: unknown }>(
    source,
    'SELECT request_hash, status, body FROM idempotency_keys WHERE api_key_id = $1 AND key = $2',
    [callerId, key],
  );
  // Freed between the two statements: whoever asks again is first.
  if (!held) return { kind: 'running' };
  if (!held.request_hash.equals(hash)) return { kind: 'other_request' };
  return held.status === null ? { kind: 'running' } : { kind: 'repeat', status: held.status, body: held.body };
}

/** Keeps the answer for repeats. Does nothing when the key was taken over in the meantime. */
export async function keepAnswer(source: DataSource, { callerId, key }: KeyRef, since: string, status: number, body: unknown): Promise<void> {
  await change(
    source,
    'UPDATE idempotency_keys SET status = $4, body = $5 WHERE api_key_id = $1 AND key = $2 AND created_at = $3::timestamptz AND status IS NULL',
    [callerId, key, since, status, body === undefined ? null : JSON.stringify(body)],
  );
}

/** Gives the key free: the request was refused, and a corrected one may use it. */
export async function freeKey(source: DataSource, { callerId, key }: KeyRef, since: string): Promise<void> {
  await change(source, 'DELETE FROM idempotency_keys WHERE api_key_id = $1 AND key = $2 AND created_at = $3::timestamptz AND status IS NULL', [
    callerId,
    key,
    since,
  ]);
}

async function prune(source: DataSource): Promise<void> {
  await change(
    source,
    `DELETE FROM idempotency_keys WHERE ctid = ANY (ARRAY (
       SELECT ctid FROM idempotency_keys WHERE created_at <= now() - ${KEPT_FOR} ORDER BY created_at LIMIT ${PRUNED_AT_ONCE} FOR UPDATE SKIP LOCKED))`,
  );
}
