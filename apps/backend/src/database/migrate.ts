import { Client } from 'pg';
import type { DataSource } from 'typeorm';

/** Any number, the same for every backend of one database. */
const MIGRATION_LOCK = 7_269_104;

/**
 * Brings the database to the newest schema. Backends that start together take turns under an advisory lock, held on a connection of
 * its own; the later ones find nothing left to do.
 */
export async function migrate(source: DataSource, url: string): Promise<void> {
  const holder = new Client({ connectionString: url, connectionTimeoutMillis: 3_000, application_name: 'onward-migrate' });
  holder.on('error', () => undefined);
  await holder.connect();
  try {
    await holder.query('SELECT pg_advisory_lock($1)', [MIGRATION_LOCK]);
    await source.runMigrations();
  } finally {
    await holder.end();
  }
}
