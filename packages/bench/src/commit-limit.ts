/**
 * The durable-commit limit: what one machine's Postgres does when every step is a transaction of its own, one INSERT of the step and one
 * UPDATE of its run. The work of pgbench's script in performance tests of this kind, sent by `pg` from this process, since the embedded
 * Postgres brings no pgbench: the whole transaction is one message, as cheap for the client as it gets.
 */
import { dropDatabase, ensureDatabase } from '@onward/stack/ensure-database';
import pg from 'pg';

const RUNS = 20_000;

/** Transactions a second, measured over `seconds`, from so many clients. */
export async function measureCommitLimit(postgresUrl: string, { seconds, clients: count }: { seconds: number; clients: number }): Promise<number> {
  const name = 'bench_commit_limit';
  await dropDatabase(postgresUrl, name);
  const connectionString = await ensureDatabase(postgresUrl, name);
  const clients = Array.from({ length: count }, () => new pg.Client({ connectionString }));
  try {
    await Promise.all(clients.map((client) => client.connect()));
    await clients[0]?.query(`
      CREATE TABLE b_run (id bigint PRIMARY KEY, ver int NOT NULL DEFAULT 0, status text NOT NULL DEFAULT 'RUNNING', node text, state jsonb, updated_at timestamptz DEFAULT now()) WITH (fillfactor = 70);
      CREATE TABLE b_step (id bigserial PRIMARY KEY, run_id bigint NOT NULL, node text NOT NULL, status text NOT NULL, output jsonb, at timestamptz DEFAULT now());
      INSERT INTO b_run (id, node, state) SELECT nth, 'n1', '{"a":1}' FROM generate_series(1, ${RUNS}) AS nth;`);
    await clients[0]?.query('VACUUM ANALYZE b_run');
    const until = performance.now() + seconds * 1_000;
    let commits = 0;
    const startedAt = performance.now();
    await Promise.all(
      clients.map(async (client) => {
        while (performance.now() < until) {
          const id = 1 + Math.floor(Math.random() * RUNS);
          await client.query(`BEGIN;
            INSERT INTO b_step (run_id, node, status, output) VALUES (${id}, 'n1', 'SUCCEEDED', '{"a":2,"b":"xxxxxxxxxxxxxxxxxxxx"}');
            UPDATE b_run SET ver = ver + 1, node = 'n2', state = '{"a":2,"b":"xxxxxxxxxxxxxxxxxxxx"}', updated_at = now() WHERE id = ${id};
            COMMIT`);
          commits += 1;
        }
      }),
    );
    return commits / ((performance.now() - startedAt) / 1_000);
  } finally {
    await Promise.all(clients.map((client) => client.end()));
    await dropDatabase(postgresUrl, name);
  }
}
