/**
 * How often Postgres flushed its write-ahead log to disk. Postgres 18 counts it in pg_stat_io, for all processes of the server together; a
 * process that goes idle reports what it counted within 10 s, so the figure is read after that.
 */
import { setTimeout as pause } from 'node:timers/promises';
import type { Query } from './query.js';

const SETTLED_AFTER_MS = 11_500;

export async function countWalSyncs(query: Query): Promise<number> {
  await pause(SETTLED_AFTER_MS);
  const [found] = await query<{ count: number }>(`SELECT coalesce(sum(fsyncs), 0)::float8 AS count FROM pg_stat_io WHERE object = 'wal'`);
  return found?.count ?? 0;
}
