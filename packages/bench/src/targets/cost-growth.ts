/**
 * G1–G7: how the cost of a step grows with what surrounds it: runs of a burst, nodes of a workflow, workers, waiting runs, bytes of an answer; and whether it hangs on
 * how long processes were warmed. Each size is measured on an Onward of its own, and its CPU held against that of the smallest.
 */
import { type Burst, burst } from '../burst.js';
import { STEPS, tagSteps } from '../journeys.js';
import { loadWaitingRuns } from '../load-waiting-runs.js';
import { median } from '../median.js';
import { burstOnPeer, WARM_UP_RUNS } from '../peers.js';
import type { Bench, Group, Sample, Target } from '../target.js';
import { withOnward } from '../with-onward.js';
import { round } from '../write-table.js';
import { measureCalls } from './forward.js';

/** What one worker drives at a time: fewer runs would share fewer transactions, and that would be measured. */
const DRIVEN = 400;
/** With `--quick` runs and waiting runs are so much fewer. */
const QUICK_SHARE = 0.1;

type Cost = Pick<Burst, 'cpuPerThousandSteps' | 'stepsPerSecond'>;
type Along = {
  id: string;
  of: string;
  sizes: readonly number[];
  /** Whether `--quick` takes a tenth of each size. */
  isScaled?: boolean;
  measure(bench: Bench, size: number): Promise<Cost>;
};

const scaled = ({ isQuick }: Bench, count: number): number => (isQuick ? Math.ceil(count * QUICK_SHARE) : count);

type OwnPlan = { runs: number; nodes?: number; workers?: number; waiting?: number; warmUpRuns?: number };

function burstOnOwn(bench: Bench, { runs, nodes = STEPS, workers = 1, waiting = 0, warmUpRuns = WARM_UP_RUNS }: OwnPlan): Promise<Burst> {
  return withOnward({ ...bench, workers }, async (onward) => {
    if (waiting > 0) await loadWaitingRuns(onward, waiting);
    await burst(onward, bench.servers, { nodes: tagSteps(STEPS), stepsPerRun: STEPS, runs: warmUpRuns });
    return burst(onward, bench.servers, { nodes: tagSteps(nodes), stepsPerRun: nodes, runs });
  });
}

const ALONG: readonly Along[] = [
  { id: 'G1', of: 'runs in a burst', sizes: [500, 2_000, 10_000], isScaled: true, measure: (bench, size) => burstOnOwn(bench, { runs: scaled(bench, size) }) },
  {
    id: 'G2',
    of: 'nodes in a workflow',
    sizes: [10, 100, 490],
    measure: (bench, nodes) => burstOnOwn(bench, { nodes, runs: Math.max(scaled(bench, DRIVEN), Math.ceil((bench.runs * STEPS) / nodes)) }),
  },
  { id: 'G3', of: 'workers', sizes: [1, 2], measure: (bench, workers) => burstOnOwn(bench, { workers, runs: bench.runs }) },
  {
    id: 'G4',
    of: 'waiting runs',
    isScaled: true,
    sizes: [0, 100_000, 1_000_000],
    measure: (bench, size) => burstOnOwn(bench, { waiting: scaled(bench, size), runs: bench.runs }),
  },
  { id: 'G5', of: 'bytes answered to a call', sizes: [100, 10_240], measure: (bench, bytes) => measureCalls(bench, bytes) },
  { id: 'G6', of: 'runs to warm up Onward', sizes: [100, 2_000], measure: (bench, size) => burstOnOwn(bench, { warmUpRuns: size, runs: bench.runs }) },
  { id: 'G7', of: 'runs to warm up DBOS', sizes: [100, 2_000], measure: (bench, warmUpRuns) => burstOnPeer('dbos', { ...bench, warmUpRuns }) },
];

/** A group for each, so that one which cannot be measured takes no other with it. */
export const costGrowth: readonly Group[] = ALONG.map(({ id, of, sizes, isScaled, measure }): Group => {
  const idOf = (size: number): string => `${id} ${round(size)}`;
  return {
    targets: sizes.map(
      (size, nth): Target => ({
        id: idOf(size),
        what: `CPU for 1,000 steps, ${round(size)} ${of}`,
        unit: 's',
        judged: 'value',
        better: 'lower',
        must: null,
        aim: null,
        ...(nth === 0 ? {} : { against: round(sizes[0] ?? 0) }),
      }),
    ),
    async measure(bench): Promise<Sample[]> {
      const share = isScaled === true && bench.isQuick ? ', a tenth of it' : '';
      const costs = new Map<number, Cost[]>(sizes.map((size) => [size, []]));
      const cpuOf = (size: number): number[] => (costs.get(size) ?? []).map(({ cpuPerThousandSteps }) => cpuPerThousandSteps);
      const sample = (): Sample[] =>
        [...costs].map(([size, found], nth) => ({
          id: idOf(size),
          values: cpuOf(size),
          ...(nth === 0 ? {} : { against: cpuOf(sizes[0] ?? 0).slice(0, found.length) }),
          note: `${round(median(found.map(({ stepsPerSecond }) => stepsPerSecond)))} steps/s${share}`,
        }));
      for (let nth = 1; nth <= bench.repetitions; nth += 1) {
        for (const [size, found] of costs) {
          const cost = await measure(bench, size);
          found.push(cost);
          bench.keep(sample());
          bench.say(
            `    ${nth}/${bench.repetitions} ${round(size)} ${of}${share}: ${round(cost.cpuPerThousandSteps)} CPU s for 1,000 steps, ${round(cost.stepsPerSecond)} steps/s`,
          );
        }
      }
      return sample();
    },
  };
});
