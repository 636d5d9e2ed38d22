import { change, type Tx } from '../database/sql.js';

/** How the state of a target changes. `why` is for people; left out, the reason stays what it was. */
export type TargetChange =
  | { state: 'closed' }
  | { state: 'open'; until: Date; why?: string }
  | { state: 'half_open'; until: Date; probeRunId: string }
  | { state: 'paused'; why: string };

/** What one asked-for wait may come to, in ms, whoever asks. */
export const MAX_BLOCK_MS = 24 * 3_600_000;
/** A probe that has said nothing for so long, in ms, has lost its turn. */
export const PROBE_MS = 90_000;

/** Writes a change of state to a locked row. A target that is closed gets a new breaker number, so that what was found before is stale. */
export async function changeTarget(tx: Tx, id: string, to: TargetChange): Promise<void> {
  await change(
    tx,
    `UPDATE targets SET state = $2, blocked_until = $3, probe_run_id = $4, why = CASE WHEN $2 = 'closed' THEN NULL ELSE coalesce($5, why) END,
       breaker_no = breaker_no + CASE WHEN $2 = 'closed' THEN 1 ELSE 0 END, state_since = CASE WHEN state = $2 THEN state_since ELSE onward_now() END
     WHERE id = $1`,
    [id, to.state, 'until' in to ? to.until : null, 'probeRunId' in to ? to.probeRunId : null, 'why' in to ? (to.why?.slice(0, 1_000) ?? null) : null],
  );
}

export function later(from: Date, ms: number): Date {
  return new Date(from.getTime() + Math.min(ms, MAX_BLOCK_MS));
}
