/**
 * P16: how many events a second are accepted, each with a contact that is there and one workflow that matches, while a worker drives what they start. The first
 * of a process warm it up for those that count: a run of theirs has one step, so as many as in other bursts would leave most of its code uncompiled.
 */
import { countRuns } from '../count-runs.js';
import { publish, tagSteps, writeContacts } from '../journeys.js';
import type { Onward } from '../onward.js';
import { sendBatches, sendSingles } from '../send-events.js';
import type { Group, Sample, Target } from '../target.js';
import { until } from '../until.js';
import { withOnward } from '../with-onward.js';
import { round } from '../write-table.js';

const QUICK_SHARE = 0.2;

const accepted = (id: string, how: string, must: number | null, aim: number | null): Target => ({
  id,
  what: `events accepted a second, ${how}`,
  unit: 'events/s',
  judged: 'value',
  better: 'higher',
  must,
  aim,
});

export const intake: Group = {
  targets: [
    accepted('P16 single', 'one a request, 64 in flight', 1_200, 2_500),
    accepted('P16 first', 'one a request, the first that a process takes', null, null),
    accepted('P16 batch', '500 a request', 3_000, 6_000),
  ],
  async measure(bench, wanted): Promise<Sample[]> {
    const firsts: number[] = [];
    const singles: number[] = [];
    const batches: number[] = [];
    const scale = bench.isQuick ? QUICK_SHARE : 1;
    for (let nth = 1; nth <= bench.repetitions; nth += 1) {
      await withOnward(bench, async (onward) => {
        firsts.push(await measureIntake(onward, 'first', 5_000 * scale, sendSingles));
        if (wanted.has('P16 single')) singles.push(await measureIntake(onward, 'single', 5_000 * scale, sendSingles));
        if (wanted.has('P16 batch')) batches.push(await measureIntake(onward, 'batch', 20_000 * scale, sendBatches));
      });
      bench.say(`    ${[...firsts.slice(-1), ...singles.slice(-1), ...batches.slice(-1)].map(round).join(', ')} events/s`);
    }
    return [
      { id: 'P16 single', values: singles },
      { id: 'P16 first', values: firsts },
      { id: 'P16 batch', values: batches },
    ];
  },
};

/** Events a second. */
async function measureIntake(
  onward: Onward,
  type: string,
  count: number,
  send: (api: Onward['api'], plan: { type: string; count: number }) => Promise<void>,
): Promise<number> {
  await writeContacts(onward.query, count);
  const workflowId = await publish(onward.api, type, tagSteps(1));
  const startedAt = performance.now();
  await send(onward.api, { type, count });
  const perSecond = count / ((performance.now() - startedAt) / 1_000);
  await until('all runs have ended', async () => (await onward.query('SELECT 1 FROM runs WHERE ended_at IS NULL LIMIT 1')).length === 0, { everyMs: 500 });
  const { succeeded } = await countRuns(onward.query, workflowId);
  if (succeeded !== count) throw new Error(`${count} events were accepted and ${succeeded} runs succeeded`);
  return perSecond;
}
