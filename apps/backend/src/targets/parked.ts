/**
 * A run is parked while it waits for its target and nobody has let it go. Its time alone never wakes it: the sweeper does, by the target's
 * turn (sweep-targets.ts). SQL conditions on `runs`, written as the predicates of the indexes runs_parked, runs_unwoken and runs_woken have them.
 */
export const PARKED = `wait_reason = 'target' AND resolution IS NULL`;
export const NOT_PARKED = `(wait_reason IS DISTINCT FROM 'target' OR resolution IS NOT NULL)`;

/**
 * Runs that are woken by their time: not those of a paused workflow, and not those that wait for a target's turn. Spelled as the indexes
 * runs_unwoken and runs_woken spell it, or Postgres would not use them.
 */
export const WOKEN_BY_TIME = `due_at IS NOT NULL AND NOT is_held AND ${NOT_PARKED}`;

/** FROM and WHERE: the runs parked at the target of `key` (an SQL expression) that could go; those of a paused workflow stay where they are. */
export function parkedThatMayGo(key: string): string {
  return `FROM runs JOIN workflows ON workflows.id = runs.workflow_id WHERE ${PARKED} AND wait_key = ${key} AND workflows.status <> 'paused'`;
}
