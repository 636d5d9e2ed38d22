import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { AUTOMATIONS_QUEUE, EXECUTE_RUN, QUEUE_PREFIX } from '@onward/contracts/queues';
import { startValkey, type ValkeyServer } from '@onward/stack/valkey';
import { Queue } from 'bullmq';
import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import { countWaiting } from '../src/count-waiting.js';
import { newWakeUp } from './parts.js';

let folder: string;
let valkey: ValkeyServer;
let queue: Queue;

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'count-waiting-'));
  valkey = await startValkey({ dataDir: join(folder, 'valkey') });
  queue = new Queue(AUTOMATIONS_QUEUE, { connection: { url: valkey.url }, prefix: QUEUE_PREFIX });
});

afterAll(async () => {
  await queue?.close();
  await valkey?.stop();
  rmSync(folder, { recursive: true, force: true });
});

test('what waits and what was delayed and is due counts, though no consumer has asked for it; what is due later does not', async () => {
  expect(await countWaiting(valkey.url)).toBe(0);
  await queue.add(EXECUTE_RUN, newWakeUp());
  await queue.add(EXECUTE_RUN, newWakeUp(), { delay: 3_600_000 });
  expect(await countWaiting(valkey.url)).toBe(1);
  await queue.add(EXECUTE_RUN, newWakeUp(), { delay: 1 });
  await vi.waitFor(async () => expect(await countWaiting(valkey.url)).toBe(2), { timeout: 30_000 });
  expect(await queue.getDelayedCount()).toBe(2);
});

test('a Valkey that cannot be reached says nothing', async () => {
  expect(await countWaiting('redis://127.0.0.1:1')).toBeNull();
});
