import { targetKey } from '@onward/contracts/targets';
import { rows, type Tx } from '../database/sql.js';
import { type Batch, batchOf, TARGETS_AT_ONCE } from './batch.js';
import { changeTarget, later, PROBE_MS } from './change-target.js';
import { letGo } from './let-go.js';
import { parkedThatMayGo } from './parked.js';

type Over = { id: string; origin: string; probeRunId: string | null; now: Date };

/**
 * Gives every target whose block is over (or whose probe has said nothing in its time, or has ended) the parked run whose time came first as its probe, and lets go of
 * that run alone. A probe that was let go and has not been taken up yet is no silent one: it gets more time, however long the queue before it is. Where
 * nobody is parked who could go, the next run that comes probes (enter-target.ts). One batch of targets, of those after `after`; `count`: probes picked.
 */
export async function pickProbes(tx: Tx, after: string | null = null): Promise<Batch> {
  const over = await rows<Over>(
    tx,
    `SELECT id, origin, probe_run_id AS "probeRunId", date_trunc('milliseconds', onward_now()) + interval '1 millisecond' AS now FROM targets
     WHERE state IN ('open', 'half_open') AND (blocked_until <= onward_now() OR EXISTS (SELECT FROM runs WHERE runs.id = probe_run_id AND ended_at IS NOT NULL)) AND ($1::uuid IS NULL OR id > $1)
     ORDER BY id LIMIT $2 FOR UPDATE SKIP LOCKED`,
    [after, TARGETS_AT_ONCE],
  );
  let count = 0;
  for (const { id, origin, probeRunId, now } of over) {
    const until = later(now, PROBE_MS);
    if (probeRunId !== null && (await isOnItsWay(tx, probeRunId, origin))) {
      await changeTarget(tx, id, { state: 'half_open', until, probeRunId });
      continue;
    }
    const [probe] = await rows<{ id: string; workflowId: string; dueAt: Date | null }>(
      tx,
      `SELECT runs.id, workflow_id AS "workflowId", due_at AS "dueAt" ${parkedThatMayGo('$1')} ORDER BY due_at, runs.id LIMIT 1 FOR UPDATE OF runs SKIP LOCKED`,
      [targetKey(origin)],
    );
    if (!probe) continue;
    await changeTarget(tx, id, { state: 'half_open', until, probeRunId: probe.id });
    // It keeps the time since which it is due, so that it is early among the runs of its workflow that wait to be woken.
    const dueAt = probe.dueAt !== null && probe.dueAt < now ? probe.dueAt : now;
    await letGo(tx, [{ id: probe.id, workflowId: probe.workflowId, dueAt, delayMs: 0 }], 'it probes whether the target is well');
    count += 1;
  }
  return batchOf(over, count);
}

/** Has the probe been let go without having been taken up since, and could it be? One held by the pause of its workflow could not. */
async function isOnItsWay(tx: Tx, runId: string, origin: string): Promise<boolean> {
  const found = await rows(
    tx,
    `SELECT 1 FROM runs JOIN workflows ON workflows.id = runs.workflow_id
     WHERE runs.id = $1 AND state = 'waiting' AND wait_reason = 'target' AND wait_key = $2 AND resolution IS NOT NULL AND NOT is_held
       AND workflows.status <> 'paused'`,
    [runId, targetKey(origin)],
  );
  return found.length > 0;
}
