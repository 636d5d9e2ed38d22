/**
 * P17: a burst in whose middle backend and worker are killed with SIGKILL; both are started again, and events that were not answered are sent
 * again under the same id. Every other burst is counted too, and fails its row when the count is not exact.
 */
import { setTimeout as pause } from 'node:timers/promises';
import { countRuns } from '../count-runs.js';
import { inFlight } from '../in-flight.js';
import { emailOf, publish, STEPS, tagSteps, writeContacts } from '../journeys.js';
import type { Onward } from '../onward.js';
import { SINGLES_IN_FLIGHT } from '../send-events.js';
import type { Group, Sample } from '../target.js';
import { until } from '../until.js';
import { withOnward } from '../with-onward.js';

const EVENT = 'killed';

export const kills: Group = {
  targets: [
    {
      id: 'P17',
      what: 'runs and steps lost or doubled by a kill of backend and worker in a burst',
      unit: '',
      judged: 'value',
      better: 'lower',
      must: 0,
      aim: 0,
    },
  ],
  async measure(bench): Promise<Sample[]> {
    const values: number[] = [];
    for (let nth = 1; nth <= bench.repetitions; nth += 1) {
      bench.say(`${nth}/${bench.repetitions} a burst with kills`);
      values.push(await withOnward(bench, (onward) => burstWithKills(onward, bench.runs)));
    }
    return [{ id: 'P17', values }];
  },
};

async function burstWithKills(onward: Onward, runs: number): Promise<number> {
  await writeContacts(onward.query, runs);
  const workflowId = await publish(onward.api, EVENT, tagSteps(STEPS));
  const sending = inFlight(runs, SINGLES_IN_FLIGHT, (nth) => sendUntilTaken(onward, nth));
  const countEnded = async () =>
    (await onward.query<{ count: number }>('SELECT count(*)::integer AS count FROM runs WHERE workflow_id = $1 AND ended_at IS NOT NULL', [workflowId]))[0]
      ?.count ?? 0;
  await until('a quarter has ended', async () => (await countEnded()) >= runs / 4, { everyMs: 20 });
  onward.backend.kill('SIGKILL');
  for (const worker of onward.workers) worker.kill('SIGKILL');
  const endedAtKill = await countEnded();
  if (endedAtKill === runs) throw new Error('The kill came after the last run had ended');
  await sending;
  await until('all runs have ended', async () => (await countEnded()) === runs, { everyMs: 500 });
  const counts = await countRuns(onward.query, workflowId);
  const off = (found: number, wanted: number) => Math.abs(found - wanted);
  return off(counts.runs, runs) + off(counts.succeeded, runs) + off(counts.steps, runs * STEPS) + counts.doubledSteps + counts.gaps;
}

async function sendUntilTaken(onward: Onward, nth: number): Promise<void> {
  for (let tries = 0; tries < 600; tries += 1) {
    const answer = await onward.api.call('POST', '/events', { id: `${EVENT}-${nth}`, type: EVENT, contact: { email: emailOf(nth) } }).catch(() => null);
    if (answer !== null && answer.status < 300) return;
    await pause(100);
  }
  throw new Error(`The event ${nth} was not taken within a minute`);
}
