import { targetKey } from '@onward/contracts/targets';
import { rows, type Tx } from '../database/sql.js';
import { changeTarget, later, PROBE_MS } from './change-target.js';
import { letGo } from './let-go.js';
import { parkedThatMayGo } from './parked.js';

/**
 * Gives every target whose block is over (or whose probe has said nothing in its time) the parked run whose time came first as its probe, and lets go of
 * that run alone. Where nobody is parked who could go, the next run that comes probes (enter-target.ts). Answers how many probes it picked.
 */
export async function pickProbes(tx: Tx): Promise<number> {
  const over = await rows<{ id: string; origin: string; now: Date }>(
    tx,
    `SELECT id, origin, date_trunc('milliseconds', onward_now()) + interval '1 millisecond' AS now FROM targets
     WHERE state IN ('open', 'half_open') AND blocked_until <= onward_now() ORDER BY id FOR UPDATE SKIP LOCKED`,
  );
  let count = 0;
  for (const { id, origin, now } of over) {
    const [probe] = await rows<{ id: string }>(tx, `SELECT runs.id ${parkedThatMayGo('$1')} ORDER BY due_at, runs.id LIMIT 1 FOR UPDATE OF runs SKIP LOCKED`, [
      targetKey(origin),
    ]);
    if (!probe) continue;
    await changeTarget(tx, id, { state: 'half_open', until: later(now, PROBE_MS), probeRunId: probe.id });
    await letGo(tx, [{ id: probe.id, dueAt: now, delayMs: 0 }], 'it probes whether the target is well');
    count += 1;
  }
  return count;
}
