import type { DataSource } from 'typeorm';
import { change, rows } from '../database/sql.js';
import { hashOfKey } from './key-text.js';

export type Caller = { id: string; name: string };

/**
 * The live key with this text, or null. Looked up by its SHA-256, so nothing secret is compared byte by byte and time tells nothing
 * of a key that exists. Notes its use at most once a minute; a revoked key is refused from the commit of its revocation on.
 */
export async function findApiKey(source: DataSource, key: string): Promise<Caller | null> {
  const [found] = await rows<Caller & { is_use_noted: boolean }>(
    source,
    `SELECT id, name, coalesce(last_used_at > now() - interval '1 minute', false) AS is_use_noted
     FROM api_keys WHERE hash = $1 AND revoked_at IS NULL`,
    [hashOfKey(key)],
  );
  if (!found) return null;
  if (!found.is_use_noted) {
    await change(source, `UPDATE api_keys SET last_used_at = now() WHERE id = $1 AND (last_used_at IS NULL OR last_used_at <= now() - interval '1 minute')`, [
      found.id,
    ]);
  }
  return { id: found.id, name: found.name };
}
