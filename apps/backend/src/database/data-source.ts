import 'reflect-metadata';
import type { EventEmitter } from 'node:events';
import { DataSource, type DataSourceOptions } from 'typeorm';
import { ENTITIES } from './entities.js';
import { MIGRATIONS } from './migrations.js';

/** Deadlines of the database side, in ms: nobody waits for ever for a connection, a statement or a lock. */
const CONNECT_TIMEOUT_MS = 3_000;
const STATEMENT_TIMEOUT_MS = 15_000;
const LOCK_TIMEOUT_MS = 5_000;
const IDLE_IN_TRANSACTION_TIMEOUT_MS = 30_000;

/** Renewals and readiness, in ms: a lease is not worth waiting longer for, and the client stops waiting when the server cannot even say so. */
const VITAL_STATEMENT_TIMEOUT_MS = 3_000;
const VITAL_ANSWER_TIMEOUT_MS = 4_000;
const VITAL_POOL_SIZE = 2;

/**
 * The pool for all work of a backend process. Its connections are pipelined: a statement is sent without waiting for the answer to the one before, and
 * Postgres takes them in the order given. `onPoolError` hears of idle connections that broke; they are replaced by themselves.
 */
export function dataSourceOptions(url: string, poolSize: number, onPoolError: (error: unknown) => void): DataSourceOptions {
  return {
    type: 'postgres',
    url,
    entities: ENTITIES,
    migrations: MIGRATIONS,
    migrationsTransactionMode: 'each',
    synchronize: false,
    logging: false,
    applicationName: 'onward-backend',
    poolSize,
    poolErrorHandler: onPoolError,
    extra: {
      connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
      idleTimeoutMillis: 30_000,
      statement_timeout: STATEMENT_TIMEOUT_MS,
      lock_timeout: LOCK_TIMEOUT_MS,
      idle_in_transaction_session_timeout: IDLE_IN_TRANSACTION_TIMEOUT_MS,
      keepAlive: true,
      pipeline: true,
      onConnect: outliveOwnEnd,
    },
  };
}

/**
 * A small pool of its own for what must not wait behind work: the renewals of leases and the question whether Postgres is there. However many
 * transactions hold the other pool, a worker keeps its runs and the process says truly whether it is ready. One statement at a time: a pipelined connection
 * is thrown away when an answer is late.
 */
export function createVitalSource(url: string, onPoolError: (error: unknown) => void): DataSource {
  const options = dataSourceOptions(url, VITAL_POOL_SIZE, onPoolError);
  return new DataSource({
    ...options,
    entities: [],
    migrations: [],
    applicationName: 'onward-backend-vital',
    extra: { ...options.extra, pipeline: false, statement_timeout: VITAL_STATEMENT_TIMEOUT_MS, query_timeout: VITAL_ANSWER_TIMEOUT_MS },
  } as DataSourceOptions);
}

/** Injection token of the small pool. */
export const VITAL_SOURCE = Symbol('vital source');

/**
 * For a moment between the pool and the query runner nobody listens to a connection, and one that ends just then would take the process
 * along. Whoever uses it next is told by its own statement.
 */
function outliveOwnEnd(client: EventEmitter): void {
  client.on('error', () => undefined);
}

export function createDataSource(url: string, poolSize: number, onPoolError: (error: unknown) => void): DataSource {
  return new DataSource(dataSourceOptions(url, poolSize, onPoolError));
}
