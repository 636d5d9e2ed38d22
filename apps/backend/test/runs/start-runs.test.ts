import { afterAll, beforeAll, expect, test } from 'vitest';
import { newId } from '../../src/database/new-id.js';
import { transactAndTell, type Outbox } from '../../src/database/outbox.js';
import { attempt, rows } from '../../src/database/sql.js';
import { type PlannedRun, startRuns } from '../../src/runs/start-runs.js';
import { type BackendForTest, backendForTest } from '../backend-for-test.js';
import { line, publish, tag } from '../runtime/hand-worker.js';
import { BY_HAND } from '../sweeper/sweeper-bench.js';

let onward: BackendForTest;
beforeAll(async () => {
  onward = await backendForTest(BY_HAND);
});
afterAll(() => onward?.close());

test('the queue is told of no run that was undone to a savepoint', async () => {
  const workflowId = await publish(onward, line(tag('a')));
  const [{ id } = { id: '' }] = await rows<{ id: string }>(onward.source, 'SELECT id FROM workflow_versions WHERE workflow_id = $1', [workflowId]);
  const context = { trigger: 'manual', event: null, contact: null, depth: 0, startedBy: 'test' } as const;
  const plan = (of: string): PlannedRun => ({ workflowId: of, versionId: id, reentry: 'always', node: 'start', contactId: null, eventId: null, context });
  const told: Outbox[] = [];
  const started = await transactAndTell(onward.source, { takes: () => true, tell: (outbox) => told.push(outbox) }, async (tx) => {
    expect(await attempt(tx, () => startRuns(tx, [plan(workflowId), plan(newId())]))).toMatchObject({ ok: false });
    return startRuns(tx, [plan(workflowId)]);
  });
  const ids = started.flatMap((one) => ('runId' in one ? [one.runId] : []));
  expect(told.flatMap(({ wakeUps }) => wakeUps.map(({ runId }) => runId))).toEqual(ids);
  expect(await rows(onward.source, 'SELECT id FROM runs WHERE workflow_id = $1', [workflowId])).toEqual(ids.map((runId) => ({ id: runId })));
});
