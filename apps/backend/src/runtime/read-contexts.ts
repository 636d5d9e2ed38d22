import { prepared, type Tx } from '../database/sql.js';
import type { RunContext } from '../runs/run-context.entity.js';

const STATEMENT = 'SELECT run_id AS key, context AS value FROM run_contexts WHERE run_id = ANY($1::uuid[])';

/** What runs were started with, by run; of those whose row is gone nothing. */
export async function readContexts(tx: Tx, runIds: readonly string[]): Promise<Map<string, RunContext>> {
  return new Map((await prepared<{ key: string; value: RunContext }>(tx, STATEMENT, [runIds])).map(({ key, value }) => [key, value]));
}
