import { storableJson, storableText } from './storable-json.js';

/** Property → column. Statements and records of a table are made from one such list, so they cannot drift apart. */
export type Columns<Row> = { [Property in keyof Row]-?: string };

/** `alias.column AS "property", …` for a SELECT. */
export function selectList<Row>(columns: Columns<Row>, alias?: string): string {
  return Object.entries<string>(columns)
    .map(([property, column]) => `${alias ? `${alias}.` : ''}${column} AS "${property}"`)
    .join(', ');
}

export function namesOf<Row>(columns: Columns<Row>): (keyof Row & string)[] {
  return Object.keys(columns) as (keyof Row & string)[];
}

/** Property → the type its column has in Postgres. */
export type ColumnTypes<Row> = { [Property in keyof Row]-?: ColumnType };
export type ColumnType = 'uuid' | 'text' | 'integer' | 'smallint' | 'boolean' | 'timestamptz' | 'jsonb' | 'bytea';

/**
 * Rows as a table that a statement reads, one array for each column from `$from` on: Postgres takes them apart for half of what JSON costs it. Columns
 * have the names of properties, quoted.
 */
export function fromArrays<Row>(types: ColumnTypes<Row>, alias: string, from = 1): string {
  const properties = Object.entries<ColumnType>(types);
  const arrays = properties.map(([, type], index) => `$${from + index}::${type === 'jsonb' ? 'text' : type}[]`);
  return `unnest(${arrays.join(', ')}) AS ${alias} (${properties.map(([property]) => `"${property}"`).join(', ')})`;
}

/** A column of such a table as the column it is meant for. */
export function asColumn<Row>(types: ColumnTypes<Row>, alias: string, property: keyof Row & string): string {
  return `${alias}."${property}"${types[property] === 'jsonb' ? '::jsonb' : ''}`;
}

/**
 * The arrays of `fromArrays`, each as the text Postgres reads (manual, 8.15.6): pg would write the same, but quotes every element. What Postgres cannot keep
 * of texts is mended.
 */
export function toArrays<Row>(types: ColumnTypes<Row>, rows: readonly Row[]): string[] {
  return (Object.entries(types) as [keyof Row, ColumnType][]).map(([property, type]) => `{${rows.map((row) => toElement(type, row[property])).join(',')}}`);
}

function toElement(type: ColumnType, value: unknown): string {
  if (value === null || value === undefined) return 'NULL';
  switch (type) {
    case 'jsonb':
      // JSON escapes in a text what an array's element escapes, and a text that is JSON has nothing else to escape.
      return JSON.stringify(storableJson(value));
    case 'text':
      return quoted(storableText(value as string));
    case 'timestamptz':
      return (value as Date).toISOString();
    case 'bytea':
      return quoted(`\\x${(value as Buffer).toString('hex')}`);
    default:
      return String(value as string | number | boolean);
  }
}

function quoted(text: string): string {
  return text.includes('"') || text.includes('\\') ? `"${text.replace(/["\\]/g, '\\$&')}"` : `"${text}"`;
}
