/**
 * A burst on Onward: events that each start a run of one workflow, from the first one sent to the last run ended. CPU is that of backend,
 * workers, Postgres and Valkey; the process that sends is not counted. What is left behind is counted afterwards, exactly.
 */
import { assertComplete } from './count-runs.js';
import { type GraphNode, publish, writeContacts } from './journeys.js';
import type { Onward } from './onward.js';
import { type Measured, measure } from './process-meter.js';
import { sendBatches } from './send-events.js';
import type { Servers } from './servers.js';
import { until } from './until.js';

/** A burst's last runs are watched closely. */
const MOST = 0.9;

export type BurstPlan = { nodes: readonly GraphNode[]; runs: number; stepsPerRun: number };
export type Part = 'backend' | 'worker' | 'postgres' | 'valkey';
export type Burst = Measured<Part> & {
  steps: number;
  stepsPerSecond: number;
  cpuPerThousandSteps: number;
  workflowId: string;
};

export async function burst(onward: Onward, servers: Servers, { nodes, runs, stepsPerRun }: BurstPlan): Promise<Burst> {
  const event = `burst-${runs}-${process.hrtime.bigint()}`;
  await writeContacts(onward.query, runs);
  const workflowId = await publish(onward.api, event, nodes);
  const measured = await measure({ roots: rootsOf(onward, servers), memoryOf: ['backend', 'worker'] }, async () => {
    await sendBatches(onward.api, { type: event, count: runs });
    await until('most runs have ended', async () => (await countEnded(onward, workflowId)) >= MOST * runs);
    // Looking costs Postgres as well, and a tenth of a second is a twentieth of a burst.
    await until('all runs have ended', async () => (await countEnded(onward, workflowId)) === runs, { everyMs: 10 });
  });
  await assertComplete(onward.query, { workflowId, runs, stepsPerRun });
  const steps = runs * stepsPerRun;
  return {
    ...measured,
    steps,
    stepsPerSecond: steps / measured.seconds,
    cpuPerThousandSteps: (measured.cpuSecondsOfAll / steps) * 1_000,
    workflowId,
  };
}

export function rootsOf(onward: Onward, servers: Servers): Record<Part, number[]> {
  return { ...onward.pids(), postgres: [servers.postgresPid], valkey: [servers.valkeyPid] };
}

async function countEnded({ query }: Onward, workflowId: string): Promise<number> {
  const [found] = await query<{ count: number }>('SELECT count(*)::integer AS count FROM runs WHERE workflow_id = $1 AND ended_at IS NOT NULL', [workflowId]);
  return found?.count ?? 0;
}
