import type { QueryResultRow } from 'pg';

/** Asks the database of what is measured, as a witness from outside. */
export type Query = <Row extends QueryResultRow>(sql: string, parameters?: unknown[]) => Promise<Row[]>;
