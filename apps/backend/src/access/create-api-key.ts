import { change, type Tx } from '../database/sql.js';
import { newId } from '../database/new-id.js';
import { mintKeyText } from './key-text.js';

export type NewApiKey = { id: string; name: string; prefix: string; key: string };

/** Makes a key. `key` is given back this once and is kept nowhere. */
export async function createApiKey(tx: Tx, name: string): Promise<NewApiKey> {
  const { key, prefix, hash } = mintKeyText();
  const id = newId();
  await change(tx, 'INSERT INTO api_keys (id, name, prefix, hash) VALUES ($1, $2, $3, $4)', [id, name, prefix, hash]);
  return { id, name, prefix, key };
}
