import { createHash } from 'node:crypto';
import { type DataSource, type EntityManager, QueryFailedError, QueryRunnerAlreadyReleasedError } from 'typeorm';
import type { PoolClient } from 'pg';

/** Work inside a transaction takes one of these; whoever holds it may read and write and never commits. */
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
  if (!('queryRunner' in tx) || !tx.queryRunner) return rows(tx, statement, parameters);
  // One whose connection broke would dial another, outside of the transaction.
  if (tx.queryRunner.isReleased) throw new QueryRunnerAlreadyReleasedError();
  const client = (await tx.queryRunner.connect()) as PoolClient;
  try {
    return (await client.query({ name: nameOf(statement), text: statement, values: parameters })).rows as Row[];
  } catch (error) {
    throw new QueryFailedError(statement, parameters, error as Error);
  }
}

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

/** Runs `work` in a transaction: committed when it returns, rolled back when it throws. */
export function transact<Result>(source: DataSource, work: (tx: Tx) => Promise<Result>): Promise<Result> {
  return source.transaction(work);
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
