import pg from 'pg';
import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import { databaseFault } from '../../src/database/database-fault.js';
import { newId } from '../../src/database/new-id.js';
import { attempt, commitWith, rows, transact, type Tx } from '../../src/database/sql.js';
import { type BackendForTest, backendForTest } from '../backend-for-test.js';
import { HandWorker, line, publish, send, startRun } from '../runtime/hand-worker.js';

let onward: BackendForTest;
let other: pg.Client;
let worker: HandWorker;
beforeAll(async () => {
  onward = await backendForTest({ AUTOMATIONS_SWEEP_INTERVAL_MS: '100000', AUTOMATIONS_LEASE_MS: '60000' });
  worker = new HandWorker(onward);
  other = new pg.Client(onward.databaseUrl);
  await other.connect();
});
afterAll(async () => {
  worker?.close();
  await other?.end();
  await onward?.close();
});

/** Ends the connection of a transaction while no statement of it is on the way, and returns when this process has heard of it. */
async function breakConnection(tx: Tx): Promise<void> {
  const [own] = await rows<{ pid: number }>(tx, 'SELECT pg_backend_pid() AS pid');
  const { queryRunner } = tx;
  const hears = new Promise<void>((resolve) => {
    const look = () => (queryRunner?.isReleased ? resolve() : void setTimeout(look, 5));
    look();
  });
  await other.query('SELECT pg_terminate_backend($1)', [own?.pid]);
  await hears;
}

const faultOf = (work: (tx: Tx) => Promise<unknown>) =>
  transact(onward.source, work).then(
    () => 'none',
    (error: unknown) => databaseFault(error),
  );

test('a connection that ends between two statements, before the commit or under a savepoint is a database that is away', async () => {
  const betweenStatements = faultOf(async (tx) => {
    await breakConnection(tx);
    await rows(tx, 'SELECT 1');
  });
  expect(await betweenStatements).toBe('away');
  expect(await faultOf(breakConnection)).toBe('away');
  const beforeLastWrites = faultOf(async (tx) => {
    await breakConnection(tx);
    await commitWith(tx, []);
  });
  expect(await beforeLastWrites).toBe('away');
  const underSavepoint = faultOf((tx) =>
    attempt(tx, async () => {
      await breakConnection(tx);
      throw new Error('The work itself failed too');
    }),
  );
  expect(await underSavepoint).toBe('away');
});

test('an event whose commit nobody heard of is answered with 503, and not taken in a second time', async () => {
  const type = `e${newId()}`;
  const query = pg.Client.prototype.query as (this: pg.Client, ...given: unknown[]) => unknown;
  const spy = vi.spyOn(pg.Client.prototype, 'query').mockImplementation(function (this: pg.Client, ...given: unknown[]) {
    const answer = query.apply(this, given);
    if (given[0] !== 'COMMIT') return answer;
    spy.mockRestore();
    return (answer as Promise<unknown>).then(() => Promise.reject(new Error('Connection terminated unexpectedly')));
  } as never);
  expect((await onward.api('POST', '/events', { type })).status).toBe(503);
  expect(await rows(onward.source, 'SELECT 1 FROM events WHERE type = $1', [type])).toHaveLength(1);
});

test('a connection that ends behind the last writes and before their commit is a database that is away, and nothing is written', async () => {
  const id = newId();
  const write = { statement: 'INSERT INTO contacts (id, email) VALUES ($1, $2)', parameters: [id, `${id}@example.test`] };
  const end = { statement: 'SELECT pg_terminate_backend(pg_backend_pid())', parameters: [] };
  expect(await faultOf((tx) => commitWith(tx, [write, end]))).toBe('away');
  expect(await rows(onward.source, 'SELECT 1 FROM contacts WHERE id = $1', [id])).toEqual([]);
  for (let nth = 0; nth < 20; nth += 1)
    expect(await faultOf((tx) => commitWith(tx, [{ ...write, parameters: [newId(), `${newId()}@example.test`] }]))).toBe('none');
});

test('a connection that ends on its way from the pool to the one who asked for it ends no process', async () => {
  const { master } = onward.source.driver as unknown as { master: pg.Pool };
  const client = await master.connect();
  const ended = new Promise((resolve) => client.once('end', resolve));
  const [own] = (await client.query<{ pid: number }>('SELECT pg_backend_pid() AS pid')).rows;
  await other.query('SELECT pg_terminate_backend($1)', [own?.pid]);
  await ended;
  await expect(client.query('SELECT 1')).rejects.toSatisfy((error) => databaseFault(error) === 'away');
  client.release();
});

test('a statement that fails in the middle of a frame is answered as what it is, and the frame sent again is carried out', async () => {
  const { runId } = await startRun(onward, await publish(onward, line(send('call'))));
  await worker.begin(runId, 1);
  const ref = await worker.wakeUp(runId);
  await other.query('BEGIN');
  await other.query('LOCK TABLE attempts IN ACCESS EXCLUSIVE MODE');
  // The take-over is in the transaction when the third item waits for the lock, and gives up on it.
  const asking = worker.frame(['prepare', { ...ref, callId: 2 }], ['plan', ref], ['create', ref]);
  const waits = async () =>
    (await rows(onward.source, `SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`)).length > 0;
  await expect.poll(waits, { timeout: 20_000 }).toBe(true);
  await expect.poll(waits, { timeout: 20_000 }).toBe(false);
  await other.query('ROLLBACK');
  expect((await asking).map(({ kind }) => kind)).toEqual(['claimed', 'plan', 'attempt']);
  expect(await worker.run(runId)).toMatchObject({ state: 'running', epoch: 2, takeovers: 1 });
});
