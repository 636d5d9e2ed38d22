/** P10 and the second half of P15: ten calls to a target on loopback, which answers 100 bytes or 10 KB. The target runs in this process and is not counted. */
import { type Burst, burst } from '../burst.js';
import { forwardStep, STEPS } from '../journeys.js';
import { WARM_UP_RUNS } from '../peers.js';
import { startTarget } from '../target-server.js';
import type { Bench, Group, Sample, Target } from '../target.js';
import { withOnward } from '../with-onward.js';
import { round } from '../write-table.js';

const SMALL_BYTES = 100;
const LARGE_BYTES = 10_240;
/** Of the runs of a burst: calls are dearer than steps that stay inside. */
const SHARE = 0.5;

const TARGETS: readonly Target[] = [
  { id: 'P10', what: 'CPU for 1,000 calls to a target on loopback', unit: 's', judged: 'value', better: 'lower', must: 0.55, aim: 0.4 },
  { id: 'P15 payload', what: 'CPU for 1,000 calls that answer 10 KB', unit: 's', judged: 'ratio', better: 'lower', must: 2, aim: 1.5, against: '100 B' },
];

export const forward: Group = {
  targets: TARGETS,
  async measure(bench, wanted): Promise<Sample[]> {
    const small: number[] = [];
    const large: number[] = [];
    for (let nth = 1; nth <= bench.repetitions; nth += 1) {
      small.push((await measureCalls(bench, SMALL_BYTES)).cpuPerThousandSteps);
      if (wanted.has('P15 payload')) large.push((await measureCalls(bench, LARGE_BYTES)).cpuPerThousandSteps);
    }
    return [
      { id: 'P10', values: small, note: `answers of ${SMALL_BYTES} bytes` },
      { id: 'P15 payload', values: large, against: large.length === 0 ? [] : small },
    ];
  },
};

/** A burst of calls to a target that answers so many bytes; a step is a call. */
export async function measureCalls(bench: Bench, answerBytes: number): Promise<Burst> {
  const target = await startTarget({ answerBytes });
  try {
    const measured = await withOnward({ ...bench, env: { EGRESS_ALLOW: target.host } }, async (onward): Promise<Burst> => {
      const nodes = Array.from({ length: STEPS }, (_, index) => forwardStep(`s${index + 1}`, `http://${target.host}/`, { body: { hello: 'world' } }));
      await burst(onward, bench.servers, { nodes, stepsPerRun: STEPS, runs: WARM_UP_RUNS });
      return burst(onward, bench.servers, { nodes, stepsPerRun: STEPS, runs: Math.ceil(bench.runs * SHARE) });
    });
    bench.say(`    answers of ${answerBytes} bytes: ${round(measured.stepsPerSecond)} calls/s, ${round(measured.cpuPerThousandSteps)} CPU s for 1,000`);
    return measured;
  } finally {
    await target.close();
  }
}
