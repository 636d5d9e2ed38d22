import type { DataSource, EntityManager } from 'typeorm';

/** Work inside a transaction takes one of these; whoever holds it may read and write and never commits. */
export type Tx = EntityManager;

/** Runs one statement and gives its rows. Column names are given back as the statement names them. */
export async function rows<Row>(tx: Tx | DataSource, statement: string, parameters: unknown[] = []): Promise<Row[]> {
  return (await run(tx, statement, parameters)).records as Row[];
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
