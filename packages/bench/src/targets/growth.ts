/**
 * P15: whether a step costs more the longer the history before it is. Runs of one workflow of 500 actions, few enough to be driven together,
 * so they go in step; CPU and steps are read side by side all along, and the CPU of the steps around the 490th node is held against that around the
 * 10th of the same runs. So nothing differs between the two but the history: same graph, same processes, same runs.
 */
import { burst, rootsOf } from '../burst.js';
import { assertComplete } from '../count-runs.js';
import { publish, STEPS, tagSteps, writeContacts } from '../journeys.js';
import type { Onward } from '../onward.js';
import { cpuSecondsOf } from '../proc.js';
import { sendSingles } from '../send-events.js';
import type { Bench, Group, Sample } from '../target.js';
import { until } from '../until.js';
import { withOnward } from '../with-onward.js';
import { round } from '../write-table.js';

const NODES = 500;
const RUNS = 100;
const QUICK_RUNS = 20;
const WARM_UP_RUNS = 200;
/** Nodes on average, from and to; wide enough that the clock's ticks of 10 ms do not count. */
const EARLY = [5, 55] as const;
const LATE = [440, 490] as const;

type Reading = { nodes: number; cpuSeconds: number };

export const growth: Group = {
  targets: [
    {
      id: 'P15 nodes',
      what: `CPU for 1,000 steps, nodes ${LATE.join(' to ')} of ${NODES}`,
      unit: 's',
      judged: 'ratio',
      better: 'lower',
      must: 1.2,
      aim: 1.05,
      against: `nodes ${EARLY.join(' to ')}`,
    },
  ],
  async measure(bench): Promise<Sample[]> {
    const late: number[] = [];
    const early: number[] = [];
    for (let nth = 1; nth <= bench.repetitions; nth += 1) {
      const runs = bench.isQuick ? QUICK_RUNS : RUNS;
      const readings = await withOnward(bench, (onward) => readAlong(onward, bench, runs));
      early.push(cpuBetween(readings, EARLY, runs));
      late.push(cpuBetween(readings, LATE, runs));
      bench.say(`    ${nth}/${bench.repetitions}: ${round(early.at(-1) ?? Number.NaN)}, then ${round(late.at(-1) ?? Number.NaN)} CPU s for 1,000 steps`);
    }
    return [{ id: 'P15 nodes', values: late, against: early }];
  },
};

async function readAlong(onward: Onward, { servers }: Bench, runs: number): Promise<Reading[]> {
  // Compiled and cached is what it will be: else the early nodes pay for the start of the processes.
  await burst(onward, servers, { nodes: tagSteps(STEPS), stepsPerRun: STEPS, runs: WARM_UP_RUNS });
  await writeContacts(onward.query, runs);
  const workflowId = await publish(onward.api, 'long', tagSteps(NODES));
  const roots = Object.values(rootsOf(onward, servers)).flat();
  const readings: Reading[] = [];
  await sendSingles(onward.api, { type: 'long', count: runs });
  await until('all runs have ended', async () => {
    const [found] = await onward.query<{ nodes: number; left: number }>(
      'SELECT avg(seq)::float8 AS nodes, count(*) FILTER (WHERE ended_at IS NULL)::integer AS left FROM runs WHERE workflow_id = $1',
      [workflowId],
    );
    readings.push({ nodes: found?.nodes ?? 0, cpuSeconds: cpuSecondsOf(roots) });
    return found?.left === 0;
  });
  await assertComplete(onward.query, { workflowId, runs, stepsPerRun: NODES });
  return readings;
}

/** CPU seconds for 1,000 steps between the readings nearest to the two bounds. */
function cpuBetween(readings: readonly Reading[], [from, to]: readonly [number, number], runs: number): number {
  const nearest = (wanted: number): Reading =>
    readings.reduce((best, one) => (Math.abs(one.nodes - wanted) < Math.abs(best.nodes - wanted) ? one : best), readings[0] ?? { nodes: 0, cpuSeconds: 0 });
  const [first, last] = [nearest(from), nearest(to)];
  const steps = (last.nodes - first.nodes) * runs;
  if (steps < ((to - from) * runs) / 2) throw new Error(`Too few readings between the nodes ${from} and ${to}: more runs are needed`);
  return ((last.cpuSeconds - first.cpuSeconds) / steps) * 1_000;
}
