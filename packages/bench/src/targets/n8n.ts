/**
 * P2: Onward against n8n in queue mode, in turn inside each repetition. n8n is under a licence that lets nobody ship it: whoever wants these rows
 * installs it and names the folder; without one they are not run (docs/performance.md).
 */
import { burstOnN8n, readN8nVersion } from '../n8n.js';
import type { Group, Sample, Target } from '../target.js';
import { round } from '../write-table.js';
import { burstOnOnward } from './bursts.js';

const RUNS = 500;
const QUICK_RUNS = 100;
const MB = 1_000_000;

const MODES = [
  { id: 'P2 defaults', mode: 'defaults', savesProgress: false, must: 30, aim: 80 },
  { id: 'P2 progress', mode: 'progress saved', savesProgress: true, must: 45, aim: 120 },
] as const;

export const n8n: Group = {
  targets: MODES.map(
    ({ id, mode, must, aim }): Target => ({
      id,
      what: `durable steps a second, against n8n in queue mode, ${mode}`,
      unit: 'steps/s',
      judged: 'ratio',
      better: 'higher',
      must,
      aim,
      against: `n8n, ${mode}`,
    }),
  ),
  async measure(bench, wanted): Promise<Sample[]> {
    const { n8n: folder } = bench;
    if (folder === null) return MODES.map(({ id }) => ({ id, values: [], note: 'no n8n was named' }));
    const version = readN8nVersion(folder);
    const runs = bench.isQuick ? QUICK_RUNS : RUNS;
    const modes = MODES.filter(({ id }) => wanted.has(id)).map((mode) => ({ ...mode, values: [] as number[], against: [] as number[] }));
    const sample = (): Sample[] => modes.map(({ id, values, against }) => ({ id, values, against, note: `n8n ${version}, one worker, ${runs} runs` }));
    for (let nth = 1; nth <= bench.repetitions; nth += 1) {
      bench.say(`${nth}/${bench.repetitions} Onward`);
      const { stepsPerSecond } = await burstOnOnward(bench, { countsSyncs: false });
      bench.say(`    ${round(stepsPerSecond)} steps/s`);
      for (const { mode, savesProgress, values, against } of modes) {
        bench.say(`${nth}/${bench.repetitions} n8n ${version}, ${mode}`);
        const found = await burstOnN8n({ ...bench, folder, savesProgress, runs });
        bench.say(
          `    ${round(found.stepsPerSecond)} steps/s, ${round(found.cpuPerThousandSteps)} CPU s for 1,000 steps, ${round(found.peakBytes / MB)} MB of PSS at most`,
        );
        values.push(stepsPerSecond);
        against.push(found.stepsPerSecond);
        bench.keep(sample());
      }
    }
    return sample();
  },
};
