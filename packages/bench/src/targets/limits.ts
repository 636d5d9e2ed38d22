/**
 * L1–L6: what the parts that Onward stands on do by themselves on this machine, in the same run: nothing built on them can be cheaper. Only
 * reported, with the CPU of one operation; no must.
 *
 * L2 is what any two processes pay for a call; L3 is our own wire to the real backend, with the cheapest call there is: one about a run that does not
 * exist, so signed, checked, one look at the database, a refusal.
 */
import { randomUUID } from 'node:crypto';
import { BackendClient } from '@onward/wire/client';
import { measureCommitLimit } from '../commit-limit.js';
import { inFlight } from '../in-flight.js';
import { median } from '../median.js';
import { runOnPeer, trickleOnPeer } from '../peers.js';
import { measure } from '../process-meter.js';
import type { Bench, Group, Sample, Target } from '../target.js';
import { withOnward } from '../with-onward.js';
import { round } from '../write-table.js';

const COMMIT_SECONDS = 4;
const WARM_UP = 1_000;
const QUICK_SHARE = 0.2;

/** `value`: in the unit of the limit. */
type Found = { value: number; note: string };
type Limit = { id: string; what: string; unit: string; measure(bench: Bench): Promise<Found> };

const ofPeer =
  (file: string, variant: string, count: number, sides: { own: string; started: string }) =>
  async (bench: Bench): Promise<Found> => {
    const runs = bench.isQuick ? count * QUICK_SHARE : count;
    const { seconds, cpuSeconds } = await runOnPeer(file, variant, { ...bench, runs, warmUpRuns: WARM_UP });
    return { value: runs / seconds, note: describe({ [sides.own]: cpuSeconds.own, [sides.started]: cpuSeconds.started, Valkey: cpuSeconds.valkey }, runs) };
  };
const bullmq = (variant: string, count: number) => ofPeer('limit-bullmq', variant, count, { own: 'Node', started: '' });
const loopback = (variant: string, count: number) => ofPeer('limit-loopback', variant, count, { own: 'client', started: 'server' });

const commits =
  (clients: number) =>
  async ({ servers }: Bench): Promise<Found> => ({
    value: await measureCommitLimit(servers.postgresUrl, { seconds: COMMIT_SECONDS, clients }),
    note: 'by pg from Node',
  });

const LIMITS: readonly Limit[] = [
  {
    id: 'L1',
    what: 'transactions of one INSERT and one UPDATE, 8 clients',
    unit: 'commits/s',
    measure: commits(8),
  },
  { id: 'L1 one', what: 'the same, one client', unit: 'commits/s', measure: commits(1) },
  { id: 'L2 one', what: 'calls over TCP, a line of JSON each way, one in flight', unit: 'calls/s', measure: loopback('tcp-1', 20_000) },
  { id: 'L2 64', what: 'the same, 64 in flight', unit: 'calls/s', measure: loopback('tcp-64', 100_000) },
  { id: 'L3 one', what: 'calls over our wire to the backend, one in flight', unit: 'calls/s', measure: (bench) => measureWire(bench, 1, 3_000) },
  { id: 'L3 64', what: 'the same, 64 in flight', unit: 'calls/s', measure: (bench) => measureWire(bench, 64, 20_000) },
  { id: 'L4 one', what: 'BullMQ: jobs added one by one', unit: 'jobs/s', measure: bullmq('add', 10_000) },
  { id: 'L4 bulk', what: 'BullMQ: jobs added 100 a call', unit: 'jobs/s', measure: bullmq('add-bulk', 50_000) },
  { id: 'L5 one', what: 'BullMQ: jobs processed, one at a time', unit: 'jobs/s', measure: bullmq('process-1', 10_000) },
  { id: 'L5 50', what: 'BullMQ: jobs processed, 50 at a time', unit: 'jobs/s', measure: bullmq('process-50', 30_000) },
  { id: 'L5 idle', what: 'BullMQ: from adding a job to its processor, five a second, median', unit: 'ms', measure: measureIdleWake },
  { id: 'L6 one', what: 'POST on loopback by undici.request, one in flight', unit: 'calls/s', measure: loopback('http-1', 10_000) },
  { id: 'L6 50', what: 'the same, 50 in flight', unit: 'calls/s', measure: loopback('http-50', 40_000) },
];

export const limits: Group = {
  targets: LIMITS.map(({ id, what, unit }): Target => ({ id, what, unit, judged: 'value', better: unit === 'ms' ? 'lower' : 'higher', must: null, aim: null })),
  async measure(bench, wanted): Promise<Sample[]> {
    const found = LIMITS.filter(({ id }) => wanted.has(id)).map((limit) => ({ ...limit, values: [] as number[], note: '' }));
    for (let nth = 1; nth <= bench.repetitions; nth += 1) {
      for (const limit of found) {
        const { value, note } = await limit.measure(bench);
        limit.values.push(value);
        limit.note = note;
        bench.keep(found);
        bench.say(`    ${nth}/${bench.repetitions} ${limit.id}: ${round(value)} ${limit.unit}; ${note}`);
      }
    }
    return found;
  },
};

/** What a queue adds to the start of a lone run: added in one process here, and taken up in the same. */
async function measureIdleWake(bench: Bench): Promise<Found> {
  const runs = bench.isQuick ? 20 : 100;
  const tookMs = await trickleOnPeer('bullmq-wake', { ...bench, runs, everyMs: 200 });
  return { value: median(tookMs), note: `${runs} jobs, in one process` };
}

async function measureWire(bench: Bench, limit: number, wanted: number): Promise<Found> {
  const count = bench.isQuick ? wanted * QUICK_SHARE : wanted;
  return withOnward({ ...bench, workers: 0 }, async (onward) => {
    const client = new BackendClient(onward.rpc);
    const call = async (): Promise<void> => {
      const reply = await client.call('automation.runtime.attempt.latest', { runId: randomUUID(), claimId: randomUUID(), epoch: 1, seq: 1 });
      if (reply.kind !== 'refused') throw new Error(`A run that does not exist was answered ${reply.kind}`);
    };
    try {
      await inFlight(WARM_UP, limit, call);
      const roots = { backend: onward.pids().backend, Postgres: [bench.servers.postgresPid] };
      const before = process.cpuUsage();
      const { seconds, cpuSeconds } = await measure({ roots, memoryOf: [] }, () => inFlight(count, limit, call));
      const { user, system } = process.cpuUsage(before);
      return { value: count / seconds, note: describe({ client: (user + system) / 1_000_000, ...cpuSeconds }, count) };
    } finally {
      client.close();
    }
  });
}

function describe(cpuSeconds: Readonly<Record<string, number>>, count: number): string {
  const parts = Object.entries(cpuSeconds).filter(([name, seconds]) => name !== '' && seconds > 0);
  return `CPU of one: ${parts.map(([name, seconds]) => `${name} ${round((seconds / count) * 1_000_000)} µs`).join(', ')}`;
}
