/**
 * Fills the table with runs that wait for a day and more: one real run is brought to its wait, then copied with ids, event and due time of its
 * own, its context and whole history with it, so every constraint and rule of a resting run holds.
 */
import { emailOf, type GraphNode, publish, writeContacts } from './journeys.js';
import type { Onward } from './onward.js';
import type { Query } from './query.js';
import { until } from './until.js';

const EVENT = 'rests';
export const longWait: GraphNode = { id: 'pause', type: 'wait', config: { kind: 'duration', duration: 'P2D' } };

/** Answers the workflow's id. Columns that are added later are copied as they are. */
export async function loadWaitingRuns({ api, query }: Onward, count: number): Promise<string> {
  await writeContacts(query, 1);
  const workflowId = await publish(api, EVENT, [longWait]);
  await api.must('POST', '/events', { type: EVENT, contact: { email: emailOf(0) } });
  const find = () => query<{ id: string }>(`SELECT id FROM runs WHERE workflow_id = $1 AND state = 'waiting'`, [workflowId]);
  await until('the run waits', async () => (await find()).length === 1, { withinMs: 60_000 });
  const run = (await find())[0]?.id ?? '';
  await query(
    `CREATE TABLE bench_new AS SELECT uuidv7() AS id, nth, now() + interval '1 day' + nth * interval '2 seconds' AS due_at FROM generate_series(1, ${count}) AS nth`,
  );
  await copy(query, 'runs', 'id', run, { id: 'bench_new.id', claim_id: 'gen_random_uuid()', event_id: `'rests-' || nth`, due_at: 'bench_new.due_at' });
  await copy(query, 'run_contexts', 'run_id', run, { run_id: 'bench_new.id' });
  await copy(query, 'attempts', 'run_id', run, { run_id: 'bench_new.id' });
  await query('DROP TABLE bench_new');
  await query('VACUUM ANALYZE runs, run_contexts, attempts');
  return workflowId;
}

async function copy(query: Query, table: string, key: string, run: string, own: Readonly<Record<string, string>>): Promise<void> {
  const columns = await query<{ name: string }>(
    `SELECT column_name AS name FROM information_schema.columns WHERE table_schema = 'public' AND table_name = $1 AND is_generated = 'NEVER' ORDER BY ordinal_position`,
    [table],
  );
  const names = columns.map(({ name }) => name);
  await query(
    `INSERT INTO ${table} (${names.join(', ')}) SELECT ${names.map((name) => own[name] ?? `one.${name}`).join(', ')} FROM bench_new, ${table} AS one WHERE one.${key} = '${run}'`,
  );
}
