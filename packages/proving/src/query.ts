import type { QueryResultRow } from 'pg';

/** Asks the database of an installation as a witness from outside. */
export type Query = <Row extends QueryResultRow>(sql: string, parameters?: unknown[]) => Promise<Row[]>;
