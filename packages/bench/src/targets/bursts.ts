/**
 * P1, P3–P6, P8: the same ten trivial durable steps on Onward and on each peer, in turn inside every repetition, each on fresh processes and a
 * fresh database, warmed with as many runs.
 */
import { setTimeout as pause } from 'node:timers/promises';
import { burst, type Burst, type Part } from '../burst.js';
import { measureCommitLimit } from '../commit-limit.js';
import { STEPS, tagSteps } from '../journeys.js';
import { median } from '../median.js';
import { startOnward } from '../onward.js';
import { burstOnPeer, type PeerName, WARM_UP_RUNS } from '../peers.js';
import { pssOf } from '../proc.js';
import type { Bench, Group, Sample, Target } from '../target.js';
import { countWalSyncs } from '../wal-syncs.js';
import { round } from '../write-table.js';

const IDLE_AFTER_MS = 5_000;
const COMMIT_LIMIT_SECONDS = 4;
const MB = 1_000_000;

const against = (id: string, peer: string, must: number | null, aim: number | null): Target => ({
  id,
  what: `durable steps a second, against ${peer}`,
  unit: 'steps/s',
  judged: 'ratio',
  better: 'higher',
  must,
  aim,
  against: peer,
});

/** Which peer each row is measured against. */
const PEER_OF: Readonly<Record<string, PeerName>> = {
  P1: 'dbos',
  'P1 queue': 'dbos-queue',
  'P3 pg-boss': 'pg-boss',
  'P3 BullMQ': 'bullmq',
  'P3 graphile': 'graphile-worker',
  'P3 graphile tuned': 'graphile-worker-tuned',
};

const TARGETS: readonly Target[] = [
  against('P1', 'DBOS, 100 in flight', 6, 12),
  against('P1 queue', 'DBOS, its queue', null, null),
  against('P3 pg-boss', 'pg-boss, batched by hand', 0.7, 1.5),
  against('P3 BullMQ', 'a BullMQ chain, not durable', 0.9, 1.5),
  against('P3 graphile', 'graphile-worker', null, null),
  against('P3 graphile tuned', 'graphile-worker, tuned', null, null),
  { ...against('P4', 'the durable-commit limit', 0.45, 1.2), against: 'one transaction a step, 8 clients' },
  { id: 'P5', what: 'CPU for 1,000 steps, all processes', unit: 's', judged: 'value', better: 'lower', must: 0.3, aim: 0.12 },
  {
    id: 'P5 DBOS',
    what: 'CPU for 1,000 steps, against DBOS',
    unit: 's',
    judged: 'ratio',
    better: 'lower',
    must: null,
    aim: null,
    against: 'DBOS, 100 in flight',
  },
  { id: 'P6', what: 'fsyncs of the write-ahead log for 1,000 steps', unit: 'fsyncs', judged: 'value', better: 'lower', must: 50, aim: 20 },
  { id: 'P8 idle', what: 'memory of backend and worker, idle', unit: 'MB', judged: 'value', better: 'lower', must: 300, aim: 220 },
  { id: 'P8 burst', what: 'memory of backend and worker, the most in a burst', unit: 'MB', judged: 'value', better: 'lower', must: 400, aim: 300 },
];

type OwnBurst = Burst & { idleBytes: number; walSyncs: number | null };

export const bursts: Group = {
  targets: TARGETS,
  async measure(bench, wanted) {
    const own: OwnBurst[] = [];
    const peers = new Map<PeerName, { stepsPerSecond: number; cpuPerThousandSteps: number }[]>();
    const limits: number[] = [];
    const wantedPeers = new Set([...wanted].flatMap((id) => PEER_OF[id] ?? (id === 'P5 DBOS' ? (['dbos'] as const) : [])));
    const sample = (): Sample[] => {
      const steps = own.map(({ stepsPerSecond }) => stepsPerSecond);
      const cpu = own.map(({ cpuPerThousandSteps }) => cpuPerThousandSteps);
      const note = 'events sent by batches';
      return [
        ...Object.entries(PEER_OF).map(([id, peer]): Sample => {
          const found = peers.get(peer) ?? [];
          return { id, values: found.length === 0 ? [] : steps, against: found.map(({ stepsPerSecond }) => stepsPerSecond), note };
        }),
        { id: 'P4', values: limits.length === 0 ? [] : steps, against: limits, note: 'limit sent by pg from Node, no pgbench' },
        { id: 'P5', values: cpu, note: medianParts(own) },
        { id: 'P5 DBOS', values: peers.has('dbos') ? cpu : [], against: (peers.get('dbos') ?? []).map(({ cpuPerThousandSteps }) => cpuPerThousandSteps) },
        { id: 'P6', values: own.flatMap(({ walSyncs, steps: count }) => (walSyncs === null ? [] : [(walSyncs / count) * 1_000])) },
        { id: 'P8 idle', values: own.map(({ idleBytes }) => idleBytes / MB), note: 'PSS' },
        { id: 'P8 burst', values: own.map(({ peakBytes }) => peakBytes / MB), note: 'PSS' },
      ];
    };
    for (let nth = 1; nth <= bench.repetitions; nth += 1) {
      for (const peer of wantedPeers) {
        bench.say(`${nth}/${bench.repetitions} ${peer}`);
        const measured = await burstOnPeer(peer, bench);
        peers.set(peer, [...(peers.get(peer) ?? []), measured]);
        bench.say(
          `    ${round(measured.stepsPerSecond)} steps/s, ${round(measured.cpuPerThousandSteps)} CPU s for 1,000 steps, ${round(measured.peakBytes / MB)} MB`,
        );
      }
      if (wanted.has('P4')) {
        bench.say(`${nth}/${bench.repetitions} durable-commit limit`);
        limits.push(await measureCommitLimit(bench.servers.postgresUrl, { seconds: COMMIT_LIMIT_SECONDS, clients: 8 }));
        bench.say(`    ${round(limits.at(-1) ?? Number.NaN)} transactions/s`);
      }
      bench.say(`${nth}/${bench.repetitions} Onward`);
      const measured = await burstOnOnward(bench, { countsSyncs: wanted.has('P6') });
      own.push(measured);
      bench.keep(sample());
      bench.say(`    ${round(measured.stepsPerSecond)} steps/s, ${round(measured.cpuPerThousandSteps)} CPU s for 1,000 steps (${describeParts(measured)})`);
    }
    return sample();
  },
};

/** On fresh processes and a fresh database, warmed like the peers. */
export async function burstOnOnward(bench: Bench, { countsSyncs }: { countsSyncs: boolean }): Promise<OwnBurst> {
  const { servers, runs } = bench;
  const onward = await startOnward(bench);
  try {
    await pause(IDLE_AFTER_MS);
    const { backend, worker } = onward.pids();
    const idleBytes = pssOf([...backend, ...worker]);
    const plan = { nodes: tagSteps(STEPS), stepsPerRun: STEPS };
    await burst(onward, servers, { ...plan, runs: WARM_UP_RUNS });
    const before = countsSyncs ? await countWalSyncs(onward.query) : 0;
    const measured = await burst(onward, servers, { ...plan, runs });
    const walSyncs = countsSyncs ? (await countWalSyncs(onward.query)) - before : null;
    return { ...measured, idleBytes, walSyncs };
  } finally {
    await onward.close();
  }
}

const PARTS: readonly Part[] = ['backend', 'worker', 'postgres', 'valkey'];

function describeParts({ cpuSeconds, steps }: Burst): string {
  return PARTS.map((part) => `${part} ${round((cpuSeconds[part] / steps) * 1_000)}`).join(', ');
}

function medianParts(own: readonly Burst[]): string {
  return PARTS.map((part) => `${part} ${round(median(own.map(({ cpuSeconds, steps }) => (cpuSeconds[part] / steps) * 1_000)))}`).join(', ');
}
