import { afterAll, beforeAll, expect, test } from 'vitest';
import { asColumn, type ColumnTypes, fromArrays, toArrays } from '../../src/database/columns.js';
import { rows } from '../../src/database/sql.js';
import { type BackendForTest, backendForTest } from '../backend-for-test.js';
import { BY_HAND } from '../sweeper/sweeper-bench.js';

let onward: BackendForTest;
beforeAll(async () => {
  onward = await backendForTest(BY_HAND);
});
afterAll(() => onward?.close());

type Row = { id: string | null; text: string | null; count: number | null; small: number | null; yes: boolean | null; at: Date | null; json: unknown };
const TYPES: ColumnTypes<Row> = { id: 'uuid', text: 'text', count: 'integer', small: 'smallint', yes: 'boolean', at: 'timestamptz', json: 'jsonb' };
const ID = '0197a1b2-0000-7000-8000-000000000001';
const NOTHING: Row = { id: null, text: null, count: null, small: null, yes: null, at: null, json: null };

/** What Postgres makes of the rows. */
function readBack(given: readonly Row[]): Promise<Row[]> {
  const names = Object.keys(TYPES) as (keyof Row)[];
  const list = names.map((name) => `${asColumn(TYPES, 'one', name)} AS "${name}"`).join(', ');
  return rows<Row>(onward.source, `SELECT ${list} FROM ${fromArrays(TYPES, 'one')}`, toArrays(TYPES, given));
}

test('rows come to Postgres as they are, whatever their texts look like', async () => {
  const texts = ['', ' ', 'NULL', 'null', 'a,b', '{a}', '"', '\\', '\\"', "it's", 'é 今日 🎉', 'two\nlines', '{"a":"b"}'];
  const given = texts.map(
    (text, nth): Row => ({
      id: ID,
      text,
      count: 1 - nth,
      small: nth,
      yes: nth % 2 === 0,
      at: new Date(1_796_000_000_000 + nth),
      json: { text, list: [text, nth, null, { '"\\': text }] },
    }),
  );
  expect(await readBack(given)).toEqual(given);
});

test('nothing is NULL in every type, beside what is something', async () => {
  const something: Row = { id: ID, text: 'a', count: 1, small: 1, yes: false, at: new Date(0), json: 0 };
  expect(await readBack([NOTHING, something, NOTHING])).toEqual([NOTHING, something, NOTHING]);
  expect(await readBack([])).toEqual([]);
});

test('what Postgres cannot keep of a text is replaced by U+FFFD', async () => {
  const [found] = await readBack([{ ...NOTHING, text: 'a\0b\ud800', json: { 'k\0': 'v\udc00' } }]);
  expect(found).toMatchObject({ text: 'a\ufffdb\ufffd', json: { 'k\ufffd': 'v\ufffd' } });
});
