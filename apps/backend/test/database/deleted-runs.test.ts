/** Nothing holds what a run has left to it but a trigger: it goes with the run, and with no other. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { rows } from '../../src/database/sql.js';
import { type BackendForTest, backendForTest } from '../backend-for-test.js';
import { line, publish, tag } from '../runtime/hand-worker.js';
import { BY_HAND, insertRuns } from '../sweeper/sweeper-bench.js';

const LEFT_BY_RUNS = ['attempts', 'outbound_requests', 'run_contexts'] as const;
let onward: BackendForTest;
beforeAll(async () => {
  onward = await backendForTest(BY_HAND);
});
afterAll(() => onward?.close());

test('runs that are deleted together take along what they left, and nothing else', async () => {
  const made = await insertRuns(onward, await publish(onward, line(tag('a'))), 3);
  const ids = made.map(({ id }) => id);
  await rows(onward.source, `INSERT INTO run_contexts (run_id, context) SELECT id, '{}' FROM unnest($1::uuid[]) AS id ON CONFLICT DO NOTHING`, [ids]);
  await rows(
    onward.source,
    `INSERT INTO attempts (run_id, seq, n, node, node_type, status, epoch) SELECT id, seq, 1, 'a', 'action', 'done', 1 FROM unnest($1::uuid[]) AS id, generate_series(1, 2) AS seq`,
    [ids],
  );
  await rows(
    onward.source,
    `INSERT INTO outbound_requests (run_id, seq, request, idempotency_key, body_hash) SELECT id, 1, '{}', '', '' FROM unnest($1::uuid[]) AS id`,
    [ids],
  );

  await rows(onward.source, 'DELETE FROM runs WHERE id = ANY ($1)', [ids.slice(1)]);

  for (const table of LEFT_BY_RUNS) {
    const left = await rows<{ id: string }>(onward.source, `SELECT DISTINCT run_id AS id FROM ${table}`);
    expect({ table, left }).toEqual({ table, left: [{ id: ids[0] }] });
  }
});
