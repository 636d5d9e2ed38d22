import { storableJson } from './storable-json.js';

/** Property → column. Statements and records of a table are made from one such list, so they cannot drift apart. */
export type Columns<Row> = { [Property in keyof Row]-?: string };

/** `alias.column AS "property", …` for a SELECT. */
export function selectList<Row>(columns: Columns<Row>, alias?: string): string {
  return Object.entries<string>(columns)
    .map(([property, column]) => `${alias ? `${alias}.` : ''}${column} AS "${property}"`)
    .join(', ');
}

/** Rows as the JSON that `jsonb_populate_recordset(null::table, …)` takes: column names for keys. */
export function toRecords<Row extends object>(columns: Columns<Row>, rows: readonly Row[]): string {
  const pairs = Object.entries<string>(columns) as [keyof Row & string, string][];
  return storableJson(rows.map((row) => Object.fromEntries(pairs.map(([property, column]) => [column, row[property]]))));
}

/** `column = alias.column, …` for an UPDATE, without the ones named. */
export function assignments<Row>(columns: Columns<Row>, alias: string, except: readonly (keyof Row)[]): string {
  return Object.entries<string>(columns)
    .filter(([property]) => !except.includes(property as keyof Row))
    .map(([, column]) => `${column} = ${alias}.${column}`)
    .join(', ');
}
