import type { DataSource } from 'typeorm';
import { change, prepared } from '../database/sql.js';
import { hashOfKey } from './key-text.js';

export type Caller = { id: string; name: string };

/**
 * The live key with this text, or null. Looked up by its SHA-256, so nothing secret is compared byte by byte and time tells nothing
 * of a key that exists. Notes its use at most once a minute; a revoked key is refused from the commit of its revocation on.
 */
export async function findApiKey(source: DataSource, key: string): Promise<Caller | null> {
  const [found] = await findApiKeys(source, [key]);
  return found ?? null;
}

const find = (which: string): string =>
  `SELECT id, name, hash, coalesce(last_used_at > now() - interval '1 minute', false) AS is_use_noted FROM api_keys WHERE ${which} AND revoked_at IS NULL`;
/** Planned once; that of many Postgres plans anew each time, for more than the asking takes. */
const FIND_ONE = find('hash = $1');
const FIND_MANY = find('hash = ANY ($1::bytea[])');

/** The same of many, one for one, asked in one statement. */
export async function findApiKeys(source: DataSource, keys: readonly string[]): Promise<(Caller | null)[]> {
  const hashes = keys.map((key) => hashOfKey(key));
  const asked = distinct(hashes);
  const [statement, given] = asked.length === 1 ? [FIND_ONE, asked[0]] : [FIND_MANY, asked];
  const found = await prepared<Caller & { hash: Buffer; is_use_noted: boolean }>(source, statement, [given]);
  const unnoted = found.filter(({ is_use_noted }) => !is_use_noted).map(({ id }) => id);
  if (unnoted.length > 0) {
    await change(
      source,
      `UPDATE api_keys SET last_used_at = now() WHERE id IN (
         SELECT id FROM api_keys WHERE id = ANY ($1::uuid[]) AND (last_used_at IS NULL OR last_used_at <= now() - interval '1 minute') ORDER BY id FOR UPDATE)`,
      [unnoted],
    );
  }
  const byHash = new Map(found.map(({ id, name, hash }) => [hash.toString('hex'), { id, name }]));
  return hashes.map((hash) => byHash.get(hash.toString('hex')) ?? null);
}

function distinct(hashes: readonly Buffer[]): Buffer[] {
  return [...new Map(hashes.map((hash) => [hash.toString('hex'), hash])).values()];
}
