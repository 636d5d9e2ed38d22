import { z } from 'zod';
import { uuidSchema } from './uuid.js';

/**
 * Cursor pagination over a stable order: a sort key, and an id that breaks its ties. The cursor is the last row's (key, id), so rows
 * that share a key are neither skipped nor repeated and a page deep in the list costs what the first costs. An instant as key carries
 * its microseconds: a `Date` would cut them and skip rows. A cursor is a place in the list and holds for both directions.
 * Not promised: rows inserted behind the place are not seen by the reader who has passed it.
 */
const instantKeySchema = z.iso.datetime({ precision: 6 }).refine((text) => !text.startsWith('0000'));

const keySchemas = {
  /** (created_at, id): text as SQL `instantKey` gives it, and a UUID. */
  instant: z.tuple([instantKeySchema, uuidSchema]),
  /** (received_at, id) where the id is a text of somebody else's. */
  instantAndText: z.tuple([instantKeySchema, z.string().max(400)]),
  /** (id, id): a UUIDv7 is in order of time by itself. */
  uuid: z.tuple([uuidSchema, uuidSchema]),
  /** Any two texts, ordered as the database orders text. */
  text: z.tuple([z.string().max(400), z.string().max(400)]),
};

const SQL_TYPES = {
  instant: ['timestamptz', 'uuid'],
  instantAndText: ['timestamptz', 'text'],
  uuid: ['uuid', 'uuid'],
  text: ['text', 'text'],
} as const satisfies Record<keyof typeof keySchemas, [string, string]>;

export type Place = [key: string, id: string];
export type Page = { limit: number; cursor?: Place | undefined };

/** The query fields of a list: spread into its z.strictObject. `limit` 1 to 200, 50 when not given. */
export function pageQuery(kind: keyof typeof keySchemas) {
  return {
    limit: z.coerce.number().int().min(1).max(200).default(50),
    cursor: z
      .string()
      .max(2_000)
      .transform((text, ctx): Place => {
        const read = keySchemas[kind].safeParse(decoded(text));
        if (read.success) return read.data;
        ctx.addIssue({ code: 'custom', message: 'is not a cursor that this list has given' });
        return z.NEVER;
      })
      .optional(),
  };
}

/** SQL text for an instant column as a sort key, microseconds and all; always in UTC. */
export function instantKey(column: string): string {
  return `to_char(${column} AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')`;
}

type Columns = { key: string; id: string; kind: keyof typeof keySchemas; order?: 'asc' | 'desc' };

/**
 * The SQL of a page: a condition on the cursor (`true` without one), its parameters, which are numbered after the `taken` ones in use,
 * and the ending with order and limit. It asks for one row more than the page holds, by which `pageOf` knows whether there is another.
 */
export function seek(
  { limit, cursor }: Page,
  { key, id, kind, order = 'desc' }: Columns,
  taken: number,
): { where: string; parameters: string[]; ending: string } {
  const direction = order === 'asc' ? 'ASC' : 'DESC';
  const [keyType, idType] = SQL_TYPES[kind];
  return {
    where: cursor ? `(${key}, ${id}) ${order === 'asc' ? '>' : '<'} ($${taken + 1}::${keyType}, $${taken + 2}::${idType})` : 'true',
    parameters: cursor ? [...cursor] : [],
    ending: `ORDER BY ${key} ${direction}, ${id} ${direction} LIMIT ${limit + 1}`,
  };
}

/** Makes the answer of what `seek` found. `nextCursor` is null on the last page. */
export function pageOf<Row, Item>(
  found: Row[],
  limit: number,
  placeOf: (row: Row) => Place,
  itemOf: (row: Row) => Item,
): { items: Item[]; nextCursor: string | null } {
  const shown = found.slice(0, limit);
  const last = shown.at(-1);
  return { items: shown.map(itemOf), nextCursor: found.length > limit && last !== undefined ? encoded(placeOf(last)) : null };
}

function encoded(place: Place): string {
  return Buffer.from(JSON.stringify(place)).toString('base64url');
}

function decoded(text: string): unknown {
  try {
    return JSON.parse(Buffer.from(text, 'base64url').toString());
  } catch {
    return null;
  }
}
