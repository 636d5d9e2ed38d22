/**
 * What changes at every step of a run stands in no index of `runs`, so that Postgres need not touch any of them (HOT). A claim and an end cannot
 * be such: they change what is due and who is live.
 */
import { FRAME_PATTERN } from '@onward/contracts/frame';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { rows } from '../../src/database/sql.js';
import { type BackendForTest, backendForTest } from '../backend-for-test.js';
import { HandWorker, line, publish, startRun, tag } from '../runtime/hand-worker.js';
import { BY_HAND } from '../sweeper/sweeper-bench.js';

const STEPS = 12;
let onward: BackendForTest;
let worker: HandWorker;
beforeAll(async () => {
  onward = await backendForTest({ ...BY_HAND, AUTOMATIONS_LEASE_MS: '60000' });
  worker = new HandWorker(onward);
});
afterAll(async () => {
  worker?.close();
  await onward?.close();
});

/** Postgres shows what a session has counted once that has been idle for ten seconds at most. */
async function countUpdates(): Promise<{ all: number; hot: number }> {
  const [found] = await rows<{ all: number; hot: number }>(
    onward.source,
    `SELECT n_tup_upd::int AS all, n_tup_hot_upd::int AS hot FROM pg_stat_user_tables WHERE relname = 'runs'`,
  );
  return found ?? { all: 0, hot: 0 };
}

test('every advance and every renewal of a run is a HOT update; its claim alone is none', async () => {
  const nodes = Array.from({ length: STEPS }, (_, nth) => tag(`a${nth}`));
  const { runId } = await startRun(onward, await publish(onward, line(...nodes)));
  const { at } = await worker.begin(runId);
  let { seq } = at;
  for (let step = 1; step < STEPS; step += 1) {
    const ref = { runId, claimId: at.claimId };
    const [advanced] = await worker.frame(['advance', { ...at, seq }], ['create', ref], ['execute', ref]);
    expect(advanced?.kind).toBe('advanced');
    seq = Number(advanced?.['seq']);
    const items = [{ pattern: 'automation.runtime.run.prepare', data: { ...ref, renew: true, epoch: at.epoch } }];
    await worker.client.call(FRAME_PATTERN, { v: 1, runs: [{ items }] } as never);
  }
  await expect.poll(countUpdates, { timeout: 60_000, interval: 500 }).toEqual({ all: 1 + 2 * (STEPS - 1), hot: 2 * (STEPS - 1) });
}, 90_000);
