import { Redis } from 'ioredis';
import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import { transactAndTell } from '../../src/database/outbox.js';
import { change, type Tx } from '../../src/database/sql.js';
import { resolveWait } from '../../src/runtime/resolve-wait.js';
import { RuntimeKit } from '../../src/runtime/runtime-kit.js';
import { letGoOfRuns } from '../../src/sweeper/hold-runs.js';
import { lapseRuns } from '../../src/sweeper/lapse-runs.js';
import { type BackendForTest, backendForTest } from '../backend-for-test.js';
import { HandWorker, line, publish, send, startRun, tag, wait } from '../runtime/hand-worker.js';
import { BY_HAND, insertRuns, queuesOf, readQueue, sweeperOf } from './sweeper-bench.js';

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

const tell = (work: (tx: Tx) => Promise<unknown>) => transactAndTell(onward.source, queuesOf(onward.backend), work);
const started = async (...nodes: Parameters<typeof line>) => (await startRun(onward, await publish(onward, line(...nodes)))).runId;
const post = async (path: string, body?: object) => expect((await onward.api('POST', path, body)).status).toBe(200);
const failure = (code: string) => ({ kind: 'failed', failure: { code, message: 'x' } }) as const;

/** Every writer that makes a run due: what is done before the queue is long, and the write itself, done while it is. */
const WRITERS: Record<string, () => Promise<{ runId: string; write?: () => Promise<unknown> }>> = {
  start: async () => {
    const workflowId = await publish(onward, line(tag('a')));
    const ref = { runId: '' };
    return Object.assign(ref, { write: async () => (ref.runId = (await startRun(onward, workflowId)).runId) });
  },
  release: async () => {
    const runId = await started(tag('a'));
    const { at } = await worker.begin(runId);
    return { runId, write: () => worker.call('wait', { ...at, release: 'stopping' }) };
  },
  'retry now': async () => {
    const runId = await started(send('call'));
    const { at } = await worker.begin(runId);
    await worker.frame(['update', { ...at, n: 1, outcome: failure('network') }], ['retry', at]);
    return { runId, write: () => post(`/runs/${runId}/retry-now`) };
  },
  'wake now': async () => {
    const runId = await started(wait('rest', 'PT1H'));
    await worker.call('wait', (await worker.begin(runId)).at);
    return { runId, write: () => post(`/runs/${runId}/wake-now`) };
  },
  replay: async () => {
    const runId = await started(send('call'));
    const { at } = await worker.begin(runId);
    await worker.frame(['update', { ...at, n: 1, outcome: failure('http_permanent') }], ['fail', at]);
    return { runId, write: () => post(`/runs/${runId}/replay`, {}) };
  },
  resolution: async () => {
    const [run] = await insertRuns(onward, await publish(onward, line(tag('a'))), 1);
    const runId = run?.id ?? '';
    await change(onward.source, `UPDATE runs SET state = 'waiting', wait_reason = 'mail', wait_key = 'mail:1', due_at = NULL WHERE id = $1`, [runId]);
    return { runId, write: () => tell((tx) => resolveWait(tx, { runId, key: 'mail:1', outcome: { kind: 'done', output: null } })) };
  },
  lapse: async () => {
    const columns = { state: `'running'`, due: 'NULL', leaseUntil: `clock_timestamp() - interval '1 min'` };
    const [run] = await insertRuns(onward, await publish(onward, line(tag('a'))), 1, columns);
    return { runId: run?.id ?? '', write: () => tell((tx) => lapseRuns(tx, onward.backend.app.get(RuntimeKit, { strict: false }))) };
  },
  resume: async () => {
    const [run] = await insertRuns(onward, await publish(onward, line(tag('a'))), 1, { held: 'true' });
    return { runId: run?.id ?? '', write: () => tell(letGoOfRuns) };
  },
};

test.each(Object.keys(WRITERS))(
  '%s says that the queue was told only when it is: a long queue leaves the run to the sweeper, a short one is told at once',
  async (name) => {
    const admin = new Redis(onward.valkeyUrl);
    const queue = readQueue(onward.valkeyUrl);
    const queues = queuesOf(onward.backend);
    const isTold = async (runId: string) => (await queue.waiting()).some(({ data }) => (data as { runId: string }).runId === runId);
    try {
      const laidOut = await WRITERS[name]?.();
      if (!laidOut) throw new Error(`There is no writer ${name}`);
      await queues.addWakeUps(Array.from({ length: 4_000 }, (_, nth) => ({ runId: `r${nth}`, claimId: `c${nth}`, workflowId: `w${nth}`, delayMs: 0 })));
      await vi.waitFor(async () => expect((await queues.room()).due).toBe(0), { timeout: 10_000 });
      await laidOut.write?.();
      expect((await worker.run(laidOut.runId)).wokenAt).toBeNull();
      await admin.flushdb();
      await vi.waitFor(async () => expect((await queues.room()).due).toBe(2_000), { timeout: 10_000 });
      await sweeperOf(onward.backend).sweepFully();
      expect((await worker.run(laidOut.runId)).wokenAt).not.toBeNull();
      await expect.poll(() => isTold(laidOut.runId)).toBe(true);

      const again = await WRITERS[name]?.();
      await again?.write?.();
      expect((await worker.run(again?.runId ?? '')).wokenAt).not.toBeNull();
      await expect.poll(() => isTold(again?.runId ?? '')).toBe(true);
    } finally {
      admin.disconnect();
      await queue.close();
    }
  },
);
