/**
 * Makes and removes databases of a PostgreSQL server, embedded or not.
 *
 * The URL given names the server and an account that may do so; its database is only where the command is said.
 */
import pg from 'pg';

const ALREADY_THERE = ['42P04', '23505']; // duplicate_database; unique_violation when two make it at the same moment

/** Makes the database unless it exists, and answers its URL. Throws what the server says. */
export async function ensureDatabase(url: string, name: string): Promise<string> {
  await runOn(url, async (client) => {
    try {
      await client.query(`CREATE DATABASE ${pg.escapeIdentifier(name)}`);
    } catch (error) {
      if (!(error instanceof pg.DatabaseError) || !ALREADY_THERE.includes(error.code ?? '')) throw error;
    }
  });
  return urlOfDatabase(url, name);
}

/** Removes the database if it exists, ending whatever is connected to it. */
export async function dropDatabase(url: string, name: string): Promise<void> {
  await runOn(url, (client) => client.query(`DROP DATABASE IF EXISTS ${pg.escapeIdentifier(name)} WITH (FORCE)`));
}

/** The same server and account, another database. */
export function urlOfDatabase(url: string, name: string): string {
  const changed = new URL(url);
  changed.pathname = `/${encodeURIComponent(name)}`;
  return changed.href;
}

async function runOn(url: string, act: (client: pg.Client) => Promise<unknown>): Promise<void> {
  const client = new pg.Client({ connectionString: url, connectionTimeoutMillis: 10_000 });
  await client.connect();
  try {
    await act(client);
  } finally {
    await client.end();
  }
}
