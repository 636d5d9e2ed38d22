import { createHash } from 'node:crypto';
import type { Writable } from 'node:stream';
import { type DataSource, type EntityManager, QueryFailedError, type QueryRunner, QueryRunnerAlreadyReleasedError } from 'typeorm';
import type { PoolClient } from 'pg';

/** Work inside a transaction takes one of these; whoever holds it may read and write, and commits only as the last thing its work does (`commitWith`). */
export type Tx = EntityManager;

/** Runs one statement and gives its rows. Column names are given back as the statement names them. */
export async function rows<Row>(tx: Tx | DataSource, statement: string, parameters: unknown[] = []): Promise<Row[]> {
  return (await run(tx, statement, parameters)).records as Row[];
}

/**
 * Runs one statement that is planned once for each connection and used again, and gives its rows: for the statements of the usual path. A
 * statement must be one of a few fixed texts, for each is kept.
 */
export async function prepared<Row>(tx: Tx | DataSource, statement: string, parameters: unknown[]): Promise<Row[]> {
  if ('queryRunner' in tx && tx.queryRunner) return runPrepared(tx.queryRunner, statement, parameters);
  const source = 'connection' in tx ? tx.connection : tx;
  const runner = source.createQueryRunner();
  try {
    return await runPrepared(runner, statement, parameters);
  } finally {
    await runner.release();
  }
}

async function runPrepared<Row>(runner: QueryRunner, statement: string, parameters: unknown[]): Promise<Row[]> {
  // One whose connection broke would dial another, outside of the transaction.
  if (runner.isReleased) throw new QueryRunnerAlreadyReleasedError();
  return send<Row>((await runner.connect()) as PoolClient, statement, parameters);
}

async function send<Row>(client: PoolClient, statement: string, parameters: unknown[]): Promise<Row[]> {
  gather(client);
  try {
    return (await client.query({ name: nameOf(statement), text: statement, values: parameters })).rows as Row[];
  } catch (error) {
    throw new QueryFailedError(statement, parameters, error as Error);
  }
}

const gathering = new WeakSet<Writable>();

/** What is given to a connection in one turn leaves it in one write: each write is a call of the system, and may wake the process at the other end. */
function gather(client: PoolClient): void {
  const { stream } = (client as unknown as { connection: { stream: Writable } }).connection;
  if (gathering.has(stream)) return;
  gathering.add(stream);
  stream.cork();
  process.nextTick(() => {
    gathering.delete(stream);
    stream.uncork();
  });
}

/**
 * An expression for a SELECT: to the end of the transaction a prepared statement is planned once for all values, and finds rows by their keys. Otherwise
 * Postgres plans many of them anew each time, for half of what running them costs, and takes a table it has no statistics of for small: then a
 * transaction reads all rows of a young table for the few it wants, until autovacuum has looked at it. Without jit: before Postgres 18 a scan that is
 * switched off, and made all the same, counts as dear enough to be compiled.
 */
export const KEEP_PLANS = [
  ['plan_cache_mode', 'force_generic_plan'],
  ['enable_seqscan', 'off'],
  ['jit', 'off'],
]
  .map(([name, value]) => `set_config('${name}', '${value}', true)`)
  .join(' || ');

const names = new Map<string, string>();

function nameOf(statement: string): string {
  const known = names.get(statement);
  if (known !== undefined) return known;
  const name = createHash('sha256').update(statement).digest('base64url').slice(0, 20);
  names.set(statement, name);
  return name;
}

/** Runs one statement and gives how many rows it changed. */
export async function change(tx: Tx | DataSource, statement: string, parameters: unknown[] = []): Promise<number> {
  return (await run(tx, statement, parameters)).affected ?? 0;
}

async function run(tx: Tx | DataSource, statement: string, parameters: unknown[]) {
  if ('queryRunner' in tx && tx.queryRunner) return tx.queryRunner.query(statement, parameters, true);
  const source = 'connection' in tx ? tx.connection : tx;
  const runner = source.createQueryRunner();
  try {
    return await runner.query(statement, parameters, true);
  } finally {
    await runner.release();
  }
}

/**
 * Runs `work` in a transaction: committed when it returns, rolled back when it throws. Prepared statements that need not know each other's answers may be
 * given in one go (`Promise.all`): they travel together and are run in that order, each seeing what those before it wrote. The begin of the transaction travels with the first of them.
 * Those given by `rows` or a repository travel a moment later, and one that waits for an answer before it is given may come after the rollback: neither belongs
 * among them.
 */
export async function transact<Result>(source: DataSource, work: (tx: Tx) => Promise<Result>): Promise<Result> {
  const runner = source.createQueryRunner();
  try {
    const begun = begin(runner, (await runner.connect()) as PoolClient);
    const result = await work(runner.manager);
    await begun;
    if (runner.isTransactionActive) await runner.commitTransaction();
    return result;
  } catch (error) {
    // What went wrong is said, and not that it could not even be rolled back.
    await runner.rollbackTransaction().catch(() => undefined);
    throw error;
  } finally {
    await runner.release();
  }
}

/** A prepared statement whose parameters are all texts: nothing can be wrong with one before it is sent. */
export type Statement = { statement: string; parameters: string[] };

/** Runs statements that need not know each other's answers, in their order; gives the rows of each. */
export function inOneGo(tx: Tx, statements: readonly Statement[]): Promise<unknown[][]> {
  return Promise.all(statements.map(({ statement, parameters }) => prepared(tx, statement, parameters)));
}

/**
 * Runs the last statements of a transaction and commits it: all of them and the commit travel together, so nobody can look at an answer first, and what must
 * not be committed has to fail in the database. Gives the rows of each. Throws what the first that failed threw; nothing is committed then, unless the
 * connection broke: then nobody knows. Nothing may be given to the transaction afterwards.
 */
export async function commitWith(tx: Tx, last: readonly Statement[]): Promise<unknown[][]> {
  const runner = tx.queryRunner;
  if (runner?.isReleased) throw new QueryRunnerAlreadyReleasedError();
  if (!runner?.isTransactionActive) throw new Error('There is no transaction to commit');
  const client = (await runner.connect()) as PoolClient;
  const answers = Promise.all(last.map(({ statement, parameters }) => send(client, statement, parameters)));
  gather(client);
  const commit = client.query('COMMIT');
  Object.assign(runner, { isTransactionActive: false, transactionDepth: 0 });
  const [answered, committed] = await Promise.allSettled([answers, commit]);
  if (answered.status === 'rejected') throw answered.reason;
  if (committed.status === 'rejected') throw new QueryFailedError('COMMIT', [], committed.reason as Error);
  // Postgres says so when it is asked to commit a transaction that has failed.
  if (committed.value.command !== 'COMMIT') throw new Error('The transaction had failed and was rolled back');
  return answered.value;
}

/** As the query runner's own startTransaction, which would wait for the answer before anything else is sent. */
function begin(runner: QueryRunner, client: PoolClient): Promise<unknown> {
  Object.assign(runner, { isTransactionActive: true, transactionDepth: 1 });
  gather(client);
  const begun = client.query('START TRANSACTION');
  begun.catch(() => undefined);
  return begun;
}

/**
 * Runs `work` under a savepoint: when it throws, only what it did is undone, the transaction stays usable and the error is given back
 * as a value. A lost connection cannot be undone to a savepoint and is thrown.
 */
export async function attempt<Result>(tx: Tx, work: () => Promise<Result>): Promise<{ ok: true; value: Result } | { ok: false; error: unknown }> {
  await rows(tx, 'SAVEPOINT attempt');
  try {
    const value = await work();
    await rows(tx, 'RELEASE SAVEPOINT attempt');
    return { ok: true, value };
  } catch (error) {
    await rows(tx, 'ROLLBACK TO SAVEPOINT attempt');
    return { ok: false, error };
  }
}
