import { FRAME_PATTERN } from '@onward/contracts/frame';
import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { Backend } from '../../src/create-backend.js';
import { change, rows } from '../../src/database/sql.js';
import { type BackendForTest, backendForTest } from '../backend-for-test.js';
import { HandWorker } from '../runtime/hand-worker.js';
import { anotherBackend, BY_HAND, sweeperOf } from '../sweeper/sweeper-bench.js';

let onward: BackendForTest;
let other: Backend;
let worker: HandWorker;
beforeAll(async () => {
  onward = await backendForTest(BY_HAND);
  other = await anotherBackend(onward);
  worker = new HandWorker(onward);
});
afterAll(async () => {
  worker?.close();
  await other?.close();
  await onward?.close();
});

const renew = async (workerId: string, inFlight: number) =>
  (await worker.client.call(FRAME_PATTERN, { v: 1, worker: { workerId, inFlight, targets: [] }, runs: [] })).workers;
const healthOf = async (port: number) => (await (await fetch(`http://127.0.0.1:${port}/health/ready`)).json()) as object;
const lastSeen = (workerId: string, ago: string) =>
  change(onward.source, `UPDATE workers SET seen_at = clock_timestamp() - $2::interval WHERE id = $1`, [workerId, ago]);

test('every renewal answers how many workers there are; all backends agree; one not heard of for a minute is gone, and forgotten after an hour', async () => {
  const [first, second] = [randomUUID(), randomUUID()];
  expect(await renew(first, 3)).toBe(1);
  expect(await renew(second, 4)).toBe(2);
  expect(await renew(second, 6)).toBe(2);
  for (const port of [onward.backend.port, other.port]) expect(await healthOf(port)).toMatchObject({ workers: 2, runsInHand: 9 });

  await lastSeen(first, '61 seconds');
  expect(await renew(second, 6)).toBe(1);
  for (const port of [onward.backend.port, other.port]) expect(await healthOf(port)).toMatchObject({ workers: 1, runsInHand: 6 });
  expect(await renew(first, 1)).toBe(2);

  await lastSeen(first, '59 minutes');
  await sweeperOf(onward.backend).sweepFully();
  expect(await rows(onward.source, 'SELECT 1 FROM workers')).toHaveLength(2);
  await lastSeen(first, '61 minutes');
  await sweeperOf(onward.backend).sweepFully();
  expect(await rows(onward.source, 'SELECT id FROM workers')).toEqual([{ id: second }]);
});

test('a frame in which no worker speaks of itself answers no number', async () => {
  expect(await worker.client.call(FRAME_PATTERN, { v: 1, runs: [] })).toEqual({ v: 1, runs: [] });
});
