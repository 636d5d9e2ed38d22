import { change, rows, type Tx } from '../database/sql.js';

/** Held while the live keys are counted and changed, so that two revocations cannot each leave the other's key as the last. */
export const API_KEYS_LOCK = 7_269_105;

export type Revocation = 'revoked' | 'unknown' | 'last_key';

/** Revokes a key; a repeat changes nothing. The last live one stays: without it nobody could get in. */
export async function revokeApiKey(tx: Tx, id: string): Promise<Revocation> {
  await rows(tx, 'SELECT pg_advisory_xact_lock($1)', [API_KEYS_LOCK]);
  const [key] = await rows<{ is_revoked: boolean }>(tx, 'SELECT revoked_at IS NOT NULL AS is_revoked FROM api_keys WHERE id = $1', [id]);
  if (!key) return 'unknown';
  if (key.is_revoked) return 'revoked';
  const changed = await change(
    tx,
    'UPDATE api_keys SET revoked_at = now() WHERE id = $1 AND EXISTS (SELECT FROM api_keys WHERE id <> $1 AND revoked_at IS NULL)',
    [id],
  );
  return changed === 1 ? 'revoked' : 'last_key';
}
