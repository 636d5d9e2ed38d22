/** What is known of a target is gone by only while it holds. */
import type { TargetLimits } from '@onward/contracts/targets';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { commitWith, change, rows, transact } from '../../src/database/sql.js';
import { findTargets } from '../../src/targets/find-targets.js';
import { checking, KnownTargets } from '../../src/targets/known-targets.js';
import { type BackendForTest, backendForTest } from '../backend-for-test.js';
import { HandWorker } from '../runtime/hand-worker.js';
import { BY_HAND } from '../sweeper/sweeper-bench.js';
import { beginRun, callingAt, newOrigin, operate, targetAt } from './target-bench.js';

let onward: BackendForTest;
let worker: HandWorker;
beforeAll(async () => {
  onward = await backendForTest(BY_HAND);
  worker = new HandWorker(onward);
});
afterAll(async () => {
  worker?.close();
  await onward?.close();
});

const find = async (origin: string) => (await findTargets(onward.source.manager, [origin])).get(origin) ?? null;
const set = (origin: string, changes: string) => change(onward.source, `UPDATE targets SET ${changes} WHERE origin = $1`, [origin]);

test('what is known is what was found of a target that was closed', async () => {
  const origin = newOrigin();
  const known = new KnownTargets();
  await operate(onward, origin, 'close');
  await set(origin, 'rate_per_second = 0.1, max_concurrent = 3');
  known.note(origin, await find(origin));
  const { breakerNo } = await targetAt(onward, origin);
  expect(known.get(origin)).toEqual({ origin, ratePerSecond: 0.1, maxConcurrent: 3, breakerNo });
  await operate(onward, origin, 'open');
  known.note(origin, await find(origin));
  expect(known.get(origin)).toBeUndefined();
  known.note('http://never.example.test', null);
  expect(known.get('http://never.example.test')).toBeUndefined();
});

test.each([
  ['', true],
  ['rate_per_second = 0.2', false],
  ['rate_per_second = NULL', false],
  ['max_concurrent = 4', false],
  ['max_concurrent = NULL', false],
  ['breaker_no = breaker_no + 1', false],
  [`state = 'paused'`, false],
  [`origin = 'http://moved.example.test'`, false],
])('once "%s" is set, is a transaction that goes by what is known committed? %s', async (changes, isCommitted) => {
  const origins = [newOrigin(), newOrigin()] as const;
  for (const origin of origins) {
    await operate(onward, origin, 'close');
    await set(origin, 'rate_per_second = 0.1, max_concurrent = 3');
  }
  const known = new KnownTargets();
  for (const origin of origins) known.note(origin, await find(origin));
  const met = origins.flatMap((origin) => known.get(origin) ?? []);
  expect(met).toHaveLength(2);
  if (changes) await set(origins[1], changes);
  const commit = transact(onward.source, async (tx) => {
    await commitWith(tx, [checking([...met, ...met])]);
    return true;
  });
  if (isCommitted) expect(await commit).toBe(true);
  else await expect(commit).rejects.toThrow('A target is not as it was met before');
});

test('one who went by what was known before is not covered by one who goes by what is known now', async () => {
  const origin = newOrigin();
  await operate(onward, origin, 'close');
  const known = new KnownTargets();
  known.note(origin, await find(origin));
  const before = known.get(origin) as TargetLimits;
  await set(origin, 'max_concurrent = 4');
  known.note(origin, await find(origin));
  const now = known.get(origin) as TargetLimits;
  const commit = (met: TargetLimits[]) => transact(onward.source, (tx) => commitWith(tx, [checking(met)]));
  await expect(commit([before, now])).rejects.toThrow('A target is not as it was met before');
  expect(await commit([now, now])).toHaveLength(1);
});

test('a run meets a target that is known as it is now, not as it was', async () => {
  const origin = newOrigin();
  const workflowId = await callingAt(onward, origin);
  for (let nth = 0; nth < 2; nth += 1)
    expect((await beginRun(onward, worker, workflowId)).last).toMatchObject({ kind: 'send', target: { origin, maxConcurrent: null } });
  await set(origin, 'max_concurrent = 7');
  expect((await beginRun(onward, worker, workflowId)).last).toMatchObject({ kind: 'send', target: { origin, maxConcurrent: 7 } });
  await operate(onward, origin, 'pause');
  const paused = await beginRun(onward, worker, workflowId);
  expect(paused.last).toMatchObject({ kind: 'rests', state: 'waiting' });
  expect(await rows(onward.source, 'SELECT 1 FROM outbound_requests WHERE run_id = $1', [paused.runId])).toEqual([]);
  await operate(onward, origin, 'close');
  const { breakerNo } = await targetAt(onward, origin);
  for (let nth = 0; nth < 2; nth += 1) expect((await beginRun(onward, worker, workflowId)).last).toMatchObject({ kind: 'send', target: { origin, breakerNo } });
});
