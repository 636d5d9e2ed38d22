import { connect, createServer, type Socket } from 'node:net';
import { afterAll, beforeAll, beforeEach, describe, expect, test, vi } from 'vitest';
import type { Backend } from '../../src/create-backend.js';
import { rows } from '../../src/database/sql.js';
import { type BackendForTest, backendForTest } from '../backend-for-test.js';
import { HandWorker, line, publish, send, startRun, tag } from '../runtime/hand-worker.js';
import { anotherBackend, BY_HAND, deleteRuns, insertRuns, sweeperOf } from './sweeper-bench.js';

let onward: BackendForTest;
let worker: HandWorker;
let workflowId: string;
beforeAll(async () => {
  onward = await backendForTest({ ...BY_HAND, AUTOMATIONS_LEASE_MS: '3600000' });
  worker = new HandWorker(onward);
  workflowId = await publish(onward, line(tag('a')));
});
afterAll(async () => {
  worker?.close();
  await onward?.close();
});
beforeEach(() => deleteRuns(onward));

const LAPSED = { state: `'running'`, due: 'NULL', leaseUntil: `clock_timestamp() - interval '1 min'` };
const counted = async (state: string) =>
  Number((await rows<{ count: string }>(onward.source, 'SELECT count(*) FROM runs WHERE state = $1', [state]))[0]?.count);

/** Passes until runs have lapsed; answers after each pass how many are running. */
async function sweepUntilLapsed(backend: Backend): Promise<number[]> {
  const running: number[] = [];
  await vi.waitFor(
    async () => {
      await sweeperOf(backend).sweepFully();
      running.push(await counted('running'));
      expect(running.at(-1)).toBe(0);
    },
    { timeout: 20_000, interval: 50 },
  );
  return running;
}

test('nothing lapses in the first lease of a backend, however long ago the lease of a run was over', async () => {
  await insertRuns(onward, workflowId, 3, LAPSED);
  await sweeperOf(onward.backend).sweepFully();
  expect(await counted('running')).toBe(3);
});

describe('after the first lease', () => {
  let quick: Backend;
  beforeAll(async () => {
    quick = await anotherBackend(onward, { leaseMs: 2_000 });
    await insertRuns(onward, workflowId, 1, LAPSED);
    await sweepUntilLapsed(quick);
  });
  afterAll(() => quick?.close());

  test('1,200 lapsed leases are taken back in one pass, each under a new claim', async () => {
    const runs = await insertRuns(onward, workflowId, 1_200, LAPSED);
    await sweeperOf(quick).sweepFully();
    expect(await counted('pending')).toBe(1_200);
    const now = new Map(
      (await rows<{ id: string; claimId: string; takeovers: number }>(onward.source, 'SELECT id, claim_id AS "claimId", takeovers FROM runs')).map((run) => [
        run.id,
        run,
      ]),
    );
    for (const { id, claimId } of runs) {
      expect(now.get(id)?.takeovers).toBe(1);
      expect(now.get(id)?.claimId).not.toBe(claimId);
    }
  });

  test('a run whose lease still stands is left alone', async () => {
    const [run] = await insertRuns(onward, workflowId, 1, { ...LAPSED, leaseUntil: `clock_timestamp() + interval '1 min'` });
    await sweeperOf(quick).sweepFully();
    expect(await worker.run(run?.id ?? '')).toMatchObject({ state: 'running', claimId: run?.claimId, takeovers: 0 });
  });

  test('the test clock moves no lease', async () => {
    const [run] = await insertRuns(onward, workflowId, 1, { ...LAPSED, leaseUntil: `clock_timestamp() + interval '1 min'` });
    await onward.clock.advance('PT1H');
    await sweeperOf(quick).sweepFully();
    expect(await worker.run(run?.id ?? '')).toMatchObject({ state: 'running' });
  });

  test('a backend that is fresh lets a lease be that another, longer there, takes back', async () => {
    const fresh = await anotherBackend(onward, { leaseMs: 3_600_000 });
    try {
      await insertRuns(onward, workflowId, 2, LAPSED);
      await sweeperOf(fresh).sweepFully();
      expect(await counted('running')).toBe(2);
      await sweeperOf(quick).sweepFully();
      expect([await counted('running'), await counted('pending')]).toEqual([0, 2]);
    } finally {
      await fresh.close();
    }
  });

  test('a step that lapses or is taken over 25 times is given up; releases and sends that never left do not count', async () => {
    const { runId } = await startRun(onward, await publish(onward, line(send('call'))));
    const lapse = async () => {
      await rows(onward.source, `UPDATE runs SET lease_until = clock_timestamp() - interval '1 s' WHERE id = $1`, [runId]);
      await sweeperOf(quick).sweepFully();
    };
    let count = 0;
    const isCounted = async () => expect(await worker.run(runId)).toMatchObject({ takeovers: count, seq: 2, node: 'call' });
    // The step is stood on before the first lapse: the count is of one step.
    const first = (await worker.begin(runId)).at;
    await worker.frame(['update', { ...first, n: 1, outcome: { kind: 'not_sent', why: 'stopping' } }], ['wait', first]);
    await isCounted();
    while (count < 24) {
      const { at } = await worker.begin(runId, 1);
      if (count % 3 === 0) {
        await lapse();
      } else if (count % 3 === 1) {
        const later = await worker.call('prepare', { runId, claimId: at.claimId, callId: 2 });
        expect(later).toMatchObject({ kind: 'claimed' });
        await worker.call('wait', { ...at, epoch: Number((later as { epoch: number }).epoch), release: 'stopping' });
      } else {
        await lapse();
        // Given back before and after: nothing is spent by that.
        const again = (await worker.begin(runId, 1)).at;
        await worker.call('wait', { ...again, release: 'stopping' });
      }
      count += 1;
      await isCounted();
    }
    await worker.begin(runId, 1);
    await lapse();
    expect(await worker.run(runId)).toMatchObject({ state: 'dead_lettered', endReason: 'poison_step' });
  });

  test('one poison run among many is given up and the others are taken back', async () => {
    const [poison] = await insertRuns(onward, workflowId, 1, { ...LAPSED, takeovers: '24' });
    await insertRuns(onward, workflowId, 20, LAPSED);
    await sweeperOf(quick).sweepFully();
    expect([await counted('pending'), await counted('dead_lettered')]).toEqual([20, 1]);
    expect(await worker.run(poison?.id ?? '')).toMatchObject({ state: 'dead_lettered', endReason: 'poison_step' });
  });
});

describe('a backend that stood still', () => {
  const LEASE_MS = 2_000;
  let backend: Backend;
  beforeAll(async () => {
    backend = await anotherBackend(onward, { leaseMs: LEASE_MS });
  });
  afterAll(() => backend?.close());

  test('gives every lease as long again, for it has heard no renewal meanwhile', async () => {
    await insertRuns(onward, workflowId, 1, LAPSED);
    await sweepUntilLapsed(backend);
    await insertRuns(onward, workflowId, 3, LAPSED);
    // As SIGSTOP does, or a machine that is suspended: nothing in this process goes on.
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, LEASE_MS);
    const awakeAt = performance.now();
    const running = await sweepUntilLapsed(backend);
    expect(performance.now() - awakeAt).toBeGreaterThanOrEqual(LEASE_MS);
    expect(running.slice(0, 2)).toEqual([3, 3]);
  });

  test('waits for no lease more when a clock that ran ahead is set back', async () => {
    await insertRuns(onward, workflowId, 1, LAPSED);
    vi.useFakeTimers({ toFake: ['Date'] });
    vi.setSystemTime(Date.now() + 3_600_000);
    await sweeperOf(backend).sweepFully();
    vi.useRealTimers();
    await sweepUntilLapsed(backend);
  });
});

describe('an outage of Postgres', () => {
  const LEASE_MS = 2_500;
  let wire: Awaited<ReturnType<typeof wireTo>>;
  let backend: Backend;
  beforeAll(async () => {
    wire = await wireTo(onward.databaseUrl);
    backend = await anotherBackend(onward, { databaseUrl: wire.url, leaseMs: LEASE_MS });
  });
  afterAll(async () => {
    await backend?.close();
    await wire?.close();
  });

  test('gives every lease as long again: nothing lapses in the first lease after it, and what is left does then', async () => {
    await insertRuns(onward, workflowId, 1, LAPSED);
    await sweepUntilLapsed(backend);

    wire.cut();
    await sweeperOf(backend).sweepFully();
    expect((await fetch(`http://127.0.0.1:${backend.port}/health/ready`)).status).toBe(503);
    await insertRuns(onward, workflowId, 5, LAPSED);
    await wire.mend();
    const backAt = performance.now();
    const running = await sweepUntilLapsed(backend);
    expect(performance.now() - backAt).toBeGreaterThanOrEqual(LEASE_MS);
    expect(running.slice(0, 2)).toEqual([5, 5]);
  });
});

/** A wire to the database that can be cut: what hangs on it breaks, and nobody gets through until it is mended. */
async function wireTo(databaseUrl: string) {
  const { hostname, port } = new URL(databaseUrl);
  const ends = new Set<Socket>();
  const server = createServer((near) => {
    const far = connect(Number(port), hostname);
    for (const [end, opposite] of [
      [near, far],
      [far, near],
    ] as const) {
      ends.add(end);
      end.on('error', () => opposite.destroy());
      end.on('close', () => {
        ends.delete(end);
        opposite.destroy();
      });
      end.pipe(opposite);
    }
  });
  const listen = (at: number) => new Promise<void>((resolve) => server.listen(at, '127.0.0.1', () => resolve()));
  await listen(0);
  const address = server.address();
  if (typeof address !== 'object' || address === null) throw new Error('The wire has no port');
  const url = new URL(databaseUrl);
  url.hostname = '127.0.0.1';
  url.port = String(address.port);
  const cut = () => {
    server.close();
    for (const end of ends) end.destroy();
  };
  return {
    url: url.href,
    cut,
    mend: () => listen(address.port),
    close: async () => {
      cut();
    },
  };
}
