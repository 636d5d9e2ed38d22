import { rename, writeFile } from 'node:fs/promises';
import type { DataSource } from 'typeorm';
import { rows, transact } from '../database/sql.js';
import { createApiKey, type NewApiKey } from './create-api-key.js';
import { API_KEYS_LOCK } from './revoke-api-key.js';

/**
 * Makes the first key of an installation that has never had one, and answers it; null when there is or was one. Backends that start
 * together take turns, so there is one first key. With a file named it is written there, readable by its owner alone, before the key
 * is committed: a key that nobody could read would lock everybody out. Throws when the file cannot be written.
 */
export function ensureFirstKey(source: DataSource, file: string | undefined): Promise<NewApiKey | null> {
  return transact(source, async (tx) => {
    await rows(tx, 'SELECT pg_advisory_xact_lock($1)', [API_KEYS_LOCK]);
    if ((await rows(tx, 'SELECT 1 FROM api_keys LIMIT 1')).length > 0) return null;
    const made = await createApiKey(tx, 'first');
    if (file !== undefined) {
      const draft = `${file}.${process.pid}.tmp`;
      await writeFile(draft, `${made.key}\n`, { mode: 0o600 });
      await rename(draft, file);
    }
    return made;
  });
}

/** What is printed, once, where the first key was made. */
export function firstKeyNotice(key: string): string {
  return [
    '',
    `  The first API key, shown only now:  ${key}`,
    `  Use it as:  curl -H 'Authorization: Bearer ${key}' …`,
    '  Another one:  npx pnpm@12.4.2 api-key:create <name>',
    '',
    '',
  ].join('\n');
}
