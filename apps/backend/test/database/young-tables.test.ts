/**
 * What every step asks is planned once for a connection, perhaps while tables are empty, and must not read all of a table then: a plan that does is kept
 * while the table grows.
 */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { ADD_PAIRS } from '../../src/contacts/add-tag.js';
import { REMOVE_PAIRS } from '../../src/contacts/remove-tag.js';
import { KEEP_PLANS, rows, transact } from '../../src/database/sql.js';
import { ATTEMPTS } from '../../src/runtime/reads.js';
import { MOVE_CURSORS, SAVE_RUNS } from '../../src/runtime/save-checkpoints.js';
import { type BackendForTest, backendForTest } from '../backend-for-test.js';
import { BY_HAND } from '../sweeper/sweeper-bench.js';

let onward: BackendForTest;
beforeAll(async () => {
  onward = await backendForTest(BY_HAND);
});
afterAll(() => onward?.close());

/** Scans of tables of ours, and of indexes without a condition. */
const SCANS = /Seq Scan on (?:runs|attempts|contacts|contact_tags)\b.*|Index(?: Only)? Scan (?:using|on) \S+(?: on \w+)?(?: \w+)?\n(?!\s+Index Cond)/g;

test.each([
  ['move cursors', MOVE_CURSORS.statement],
  ['save runs', SAVE_RUNS.statement],
  ['read attempts', ATTEMPTS],
  ['add tags', ADD_PAIRS],
  ['remove tags', REMOVE_PAIRS],
])('the statements that %s find rows by their keys in tables without statistics', async (_what, statement) => {
  const plan = await transact(onward.source, async (tx) => {
    await rows(tx, `SELECT ${KEEP_PLANS}`);
    return (await rows<{ 'QUERY PLAN': string }>(tx, `EXPLAIN (GENERIC_PLAN, COSTS OFF) ${statement}`)).map((line) => line['QUERY PLAN']).join('\n');
  });
  expect(`${plan}\n`.match(SCANS) ?? []).toEqual([]);
});
