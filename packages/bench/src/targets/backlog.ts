/**
 * P11, P12, P14: what a million waiting runs cost (a tenth of it with --quick). The burst runs on an Onward whose table holds them and on an
 * empty one, in turn; a claim of 100 is the sweeper's own statement for a workflow's due runs, sent from here; the 10,000 are made due
 * at one instant ahead and are claimed when none of them waits any more.
 */
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { pathToFileURL } from 'node:url';
import { burst } from '../burst.js';
import { countKeys } from '../count-keys.js';
import { publish, STEPS, tagSteps, writeContacts } from '../journeys.js';
import { loadWaitingRuns, longWait } from '../load-waiting-runs.js';
import { median } from '../median.js';
import type { Onward } from '../onward.js';
import { sendSingles } from '../send-events.js';
import type { Bench, Group, Sample } from '../target.js';
import { until } from '../until.js';
import { withOnward } from '../with-onward.js';
import { round } from '../write-table.js';

const RUNS = 1_000_000;
const QUICK_RUNS = 100_000;
const CLAIMS = 100;
const CLAIMED = 100;
const DUE = 10_000;
/** Far enough ahead for the rows to be written before they are due. */
const DUE_IN_SECONDS = 15;
/** Runs that come to rest by themselves, for what they leave in Valkey. */
const RESTING = 100;
const KEYS_SETTLE_MS = 3_000;

export const backlog: Group = {
  targets: [
    {
      id: 'P11',
      what: 'durable steps a second with a million waiting runs',
      unit: 'steps/s',
      judged: 'ratio',
      better: 'higher',
      must: 0.9,
      aim: 0.97,
      against: 'an empty table',
    },
    { id: 'P12 claim', what: 'taking 100 due runs of a million, median', unit: 'ms', judged: 'value', better: 'lower', must: 10, aim: 5 },
    { id: 'P12 crowd', what: 'until 10,000 due at one instant are all claimed', unit: 's', judged: 'value', better: 'lower', must: 5, aim: 2 },
    { id: 'P14', what: 'a waiting run on disk, runs with all indexes', unit: 'bytes', judged: 'value', better: 'lower', must: 500, aim: 250 },
    { id: 'P14 Valkey', what: 'a waiting run in Valkey', unit: 'keys', judged: 'value', better: 'lower', must: 0, aim: 0 },
  ],
  async measure(bench, wanted): Promise<Sample[]> {
    const count = bench.isQuick ? QUICK_RUNS : RUNS;
    const note = `${count.toLocaleString('en-US')} runs`;
    const loaded: number[] = [];
    const empty: number[] = [];
    const claims: number[] = [];
    const crowds: number[] = [];
    let disk: Disk | undefined;
    let keys = 0;
    await withOnward(bench, async (onward) => {
      bench.say(`loading ${note}`);
      const workflowId = await loadWaitingRuns(onward, count);
      disk = await readDisk(onward, count);
      bench.say(`    ${describeDisk(disk)}`);
      keys = await measureKeys(onward, bench);
      for (let nth = 1; nth <= bench.repetitions; nth += 1) {
        if (wanted.has('P11')) loaded.push(await burstOf(onward, bench));
        if (wanted.has('P12 claim')) claims.push(await measureClaims(onward, workflowId));
        if (wanted.has('P12 crowd')) crowds.push(await measureCrowd(onward, workflowId));
        bench.say(`    ${nth}/${bench.repetitions}: ${[...loaded.slice(-1), ...claims.slice(-1), ...crowds.slice(-1)].map(round).join(', ')}`);
      }
    });
    for (const _ of loaded) empty.push(await withOnward(bench, (onward) => burstOf(onward, bench)));
    return [
      { id: 'P11', values: loaded, against: empty, note },
      { id: 'P12 claim', values: claims, note },
      { id: 'P12 crowd', values: crowds, note },
      { id: 'P14', values: disk === undefined ? [] : [disk.runs], note: disk === undefined ? '' : `as first written; ${describeDisk(disk)}` },
      { id: 'P14 Valkey', values: [keys] },
    ];
  },
};

async function burstOf(onward: Onward, { servers, runs }: Bench): Promise<number> {
  await burst(onward, servers, { nodes: tagSteps(STEPS), stepsPerRun: STEPS, runs: 1_000 });
  return (await burst(onward, servers, { nodes: tagSteps(STEPS), stepsPerRun: STEPS, runs })).stepsPerSecond;
}

/** In a transaction that is rolled back, so the runs are neither told of nor changed. */
async function measureClaims({ query, transact }: Onward, workflowId: string): Promise<number> {
  const { WAKE_SHARES } = await loadWakeRuns();
  const took: number[] = [];
  await transact(async (ask) => {
    await ask(
      `UPDATE runs SET due_at = now() - interval '1 hour' WHERE id IN (SELECT id FROM runs WHERE workflow_id = $1 AND state = 'waiting' LIMIT ${CLAIMS * CLAIMED})`,
      [workflowId],
    );
    for (let nth = 0; nth < CLAIMS; nth += 1) {
      const startedAt = performance.now();
      const claimed = await ask(WAKE_SHARES, [[workflowId], CLAIMED, 0]);
      took.push(performance.now() - startedAt);
      if (claimed !== CLAIMED) throw new Error(`A claim took ${claimed} runs instead of ${CLAIMED}`);
    }
  });
  await query('VACUUM runs');
  return median(took);
}

/** The backend keeps its statements to itself: this is the built file that holds the one measured. */
async function loadWakeRuns(): Promise<{ WAKE_SHARES: string }> {
  const backend = createRequire(import.meta.url).resolve('@onward/backend/main');
  return (await import(pathToFileURL(join(backend, '../sweeper/wake-runs.js')).href)) as { WAKE_SHARES: string };
}

/** As the indexes of what is to be woken spell it. $1: the instant; $2: the workflow. */
const DUE_OF = `workflow_id = $2 AND due_at <= $1 AND due_at IS NOT NULL AND NOT is_held AND (wait_reason IS DISTINCT FROM 'target' OR resolution IS NOT NULL)`;

async function measureCrowd({ query }: Onward, workflowId: string): Promise<number> {
  const [due] = await query<{ at: Date }>(`SELECT date_trunc('milliseconds', clock_timestamp() + interval '${DUE_IN_SECONDS} seconds') AS at`);
  if (!due) throw new Error('The database has a clock');
  await query(`UPDATE runs SET due_at = $2 WHERE id IN (SELECT id FROM runs WHERE workflow_id = $1 AND state = 'waiting' LIMIT ${DUE})`, [workflowId, due.at]);
  const countLeft = async () =>
    (
      await query<{ count: number }>(
        // Told or not: each half has an index of its own, and neither reads what is not due.
        `SELECT ((SELECT count(*) FROM runs WHERE ${DUE_OF} AND woken_at IS NULL) + (SELECT count(*) FROM runs WHERE ${DUE_OF} AND woken_at > '-infinity'))::integer AS count`,
        [due.at, workflowId],
      )
    )[0]?.count ?? 0;
  if ((await countLeft()) !== DUE) throw new Error('The crowd was claimed before it was due');
  await until('the crowd is claimed', async () => (await countLeft()) === 0, { withinMs: 300_000 });
  const seconds = (Date.now() - due.at.getTime()) / 1_000;
  await until('the crowd has ended', async () => (await query(`SELECT 1 FROM runs WHERE state = 'running' LIMIT 1`)).length === 0, {
    withinMs: 300_000,
    everyMs: 500,
  });
  return seconds;
}

type Disk = { runs: number; contexts: number; attempts: number };

async function readDisk({ query }: Onward, count: number): Promise<Disk> {
  const [found] = await query<Disk>(
    `SELECT pg_total_relation_size('runs')::float8 / $1 AS runs, pg_total_relation_size('run_contexts')::float8 / $1 AS contexts,
       pg_total_relation_size('attempts')::float8 / $1 AS attempts`,
    [count],
  );
  if (!found) throw new Error('Sizes are one row');
  return found;
}

const describeDisk = ({ contexts, attempts }: Disk): string => `beside it ${round(contexts)} of context and ${round(attempts)} of attempts`;

/** Of runs that came to rest by themselves: keys there are with a hundred of them beyond those there are with the first. */
async function measureKeys({ api, query }: Onward, bench: Bench): Promise<number> {
  const rest = async (type: string, count: number): Promise<number> => {
    const workflowId = await publish(api, type, [longWait]);
    await writeContacts(query, count);
    await sendSingles(api, { type, count });
    const countWaiting = async () => (await query(`SELECT 1 FROM runs WHERE workflow_id = $1 AND state = 'waiting'`, [workflowId])).length;
    await until('all wait', async () => (await countWaiting()) === count, { withinMs: 60_000 });
    await pause(KEYS_SETTLE_MS);
    return countKeys(bench.servers.valkeyUrl);
  };
  const before = await rest('rests-first', 1);
  return ((await rest('rests-hundred', RESTING)) - before) / RESTING;
}
