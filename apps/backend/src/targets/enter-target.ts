import type { TargetLimits } from '@onward/contracts/targets';
import { targetKey } from '@onward/contracts/targets';
import { newId } from '../database/new-id.js';
import { change, rows, type Tx } from '../database/sql.js';
import { PROBE_MS } from './change-target.js';
import { findTargets, type FoundTarget } from './find-targets.js';
import { parkedThatMayGo } from './parked.js';

/** May a run's request go out to its target now? `until` is null where only an operator can end it. */
export type Entry = { kind: 'free'; limits: TargetLimits } | { kind: 'blocked'; until: Date | null; why: string };

/**
 * Asked with the run locked, before anything is frozen. A target met for the first time gets its row. One that is blocked is free only for its
 * probe; where its time has passed and nobody is parked who could go first, the run that asks becomes the probe. A probe that comes late goes all the same, as
 * long as no other was picked. Whoever else meets a target that is being changed at this moment does not wait for it: the run is blocked, and the
 * sweeper lets it go. Waited for are only the row of a target that is being made at this moment, and by the probe its own.
 */
export async function enterTarget(tx: Tx, origin: string, runId: string): Promise<Entry> {
  const found = (await read(tx, origin)) ?? (await make(tx, origin));
  const { id, state, why, blockedUntil, probeRunId, isOver } = found;
  const limits = limitsOf(found);
  if (state === 'closed') return { kind: 'free', limits };
  if (probeRunId === runId && (!isOver || (await renewProbe(tx, id, runId)))) return { kind: 'free', limits };
  if (isOver && (await becomeProbe(tx, id, origin, runId))) return { kind: 'free', limits };
  return { kind: 'blocked', until: blockedUntil, why: why ?? state };
}

/** What a worker must keep to at a target. */
export function limitsOf({ origin, ratePerSecond, maxConcurrent, breakerNo }: TargetLimits): TargetLimits {
  return { origin, ratePerSecond, maxConcurrent, breakerNo };
}

async function read(tx: Tx, origin: string): Promise<FoundTarget | undefined> {
  return (await findTargets(tx, [origin])).get(origin);
}

async function make(tx: Tx, origin: string): Promise<FoundTarget> {
  await change(tx, 'INSERT INTO targets (id, origin) VALUES ($1, $2) ON CONFLICT DO NOTHING', [newId(), origin]);
  const made = await read(tx, origin);
  if (!made) throw new Error(`The target ${origin} was made and is gone`);
  return made;
}

/** Gives the probe its time anew; no when another run was picked meanwhile. */
async function renewProbe(tx: Tx, id: string, runId: string): Promise<boolean> {
  const renewed = await change(
    tx,
    `UPDATE targets SET blocked_until = date_trunc('milliseconds', onward_now()) + $3 * interval '1 millisecond'
     WHERE id = $1 AND state = 'half_open' AND probe_run_id = $2`,
    [id, runId, PROBE_MS],
  );
  return renewed === 1;
}

async function becomeProbe(tx: Tx, id: string, origin: string, runId: string): Promise<boolean> {
  const become = await rows(
    tx,
    `UPDATE targets SET state = 'half_open', probe_run_id = $2, blocked_until = date_trunc('milliseconds', onward_now()) + $3 * interval '1 millisecond',
       state_since = CASE WHEN state = 'half_open' THEN state_since ELSE onward_now() END
     WHERE id = (SELECT id FROM targets WHERE id = $1 AND state IN ('open', 'half_open') AND blocked_until <= onward_now() FOR UPDATE SKIP LOCKED)
       AND NOT EXISTS (SELECT 1 ${parkedThatMayGo('$4')})
     RETURNING id`,
    [id, runId, PROBE_MS, targetKey(origin)],
  );
  return become.length === 1;
}
