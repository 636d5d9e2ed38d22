/**
 * P9: what a second worker gives. For steps that cost CPU on a full machine it must not cost; for steps that wait 50 ms on a target it must
 * nearly double: a worker drives 20 runs here and gives a target a quarter of its places, so one has 5 calls in flight.
 */
import { burst } from '../burst.js';
import { forwardStep, type GraphNode, STEPS, tagSteps } from '../journeys.js';
import { startTarget } from '../target-server.js';
import type { Bench, Group, Sample, Target } from '../target.js';
import { withOnward } from '../with-onward.js';
import { round } from '../write-table.js';

const DELAY_MS = 50;
const CONCURRENCY = 20;
const WAITING_RUNS = 100;

const twoAgainstOne = (id: string, what: string, must: number, aim: number | null): Target => ({
  id,
  what: `two workers, ${what}`,
  unit: 'steps/s',
  judged: 'ratio',
  better: 'higher',
  must,
  aim,
  against: 'one worker',
});

export const workers: Group = {
  targets: [twoAgainstOne('P9 CPU', 'steps that cost CPU', 0.9, null), twoAgainstOne('P9 waiting', `steps that wait ${DELAY_MS} ms on a target`, 1.8, 1.95)],
  async measure(bench, wanted): Promise<Sample[]> {
    const found: Record<string, [number[], number[]]> = { 'P9 CPU': [[], []], 'P9 waiting': [[], []] };
    for (let nth = 1; nth <= bench.repetitions; nth += 1) {
      for (const [id, [two, one]] of Object.entries(found)) {
        if (!wanted.has(id)) continue;
        const measureWith = (count: number) => (id === 'P9 CPU' ? measureTags(bench, count) : measureCalls(bench, count));
        one.push(await measureWith(1));
        two.push(await measureWith(2));
        bench.say(`    ${id}: ${round(one.at(-1) ?? Number.NaN)}, then ${round(two.at(-1) ?? Number.NaN)} steps/s`);
      }
    }
    return Object.entries(found).map(([id, [values, against]]) => ({ id, values, against }));
  },
};

type WorkersPlan = { count: number; env: Record<string, string>; nodes: GraphNode[]; runs: number };

function measureTags(bench: Bench, count: number): Promise<number> {
  return measure(bench, { count, env: {}, nodes: tagSteps(STEPS), runs: bench.runs });
}

async function measureCalls(bench: Bench, count: number): Promise<number> {
  const target = await startTarget({ delayMs: DELAY_MS });
  try {
    const nodes = Array.from({ length: STEPS }, (_, index) => forwardStep(`s${index + 1}`, `http://${target.host}/`));
    return await measure(bench, { count, env: { EGRESS_ALLOW: target.host, AUTOMATIONS_WORKER_CONCURRENCY: String(CONCURRENCY) }, nodes, runs: WAITING_RUNS });
  } finally {
    await target.close();
  }
}

function measure(bench: Bench, { count, env, nodes, runs }: WorkersPlan): Promise<number> {
  return withOnward({ ...bench, workers: count, env }, async (onward) => {
    await burst(onward, bench.servers, { nodes, stepsPerRun: STEPS, runs: 20 });
    return (await burst(onward, bench.servers, { nodes, stepsPerRun: STEPS, runs })).stepsPerSecond;
  });
}
