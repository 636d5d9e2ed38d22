/** Counts what a burst left behind, and throws unless it is exactly what was asked for: nothing lost, nothing doubled (P17). */
import type { Query } from './query.js';

export type RunsPlan = { workflowId: string; runs: number; stepsPerRun: number };
export type Counts = { runs: number; succeeded: number; steps: number; doubledSteps: number; gaps: number };

/** Steps are attempts at actions; those at structural nodes are not among them. */
export async function countRuns(query: Query, workflowId: string): Promise<Counts> {
  const [counts] = await query<Counts>(
    `SELECT (SELECT count(*) FROM runs WHERE workflow_id = $1)::integer AS runs,
       (SELECT count(*) FROM runs WHERE workflow_id = $1 AND state = 'succeeded')::integer AS succeeded,
       count(*) FILTER (WHERE node_type = 'action' AND status = 'done')::integer AS steps,
       (count(*) - count(DISTINCT (run_id, node)))::integer AS "doubledSteps",
       (count(DISTINCT (run_id, seq)) - coalesce(sum(seq) FILTER (WHERE is_last), 0))::integer AS gaps
     FROM (SELECT attempts.*, attempts.seq = max(attempts.seq) OVER (PARTITION BY run_id) AS is_last FROM attempts JOIN runs ON runs.id = run_id WHERE workflow_id = $1) AS tried`,
    [workflowId],
  );
  if (!counts) throw new Error('A count answers one row');
  return counts;
}

export async function assertComplete(query: Query, { workflowId, runs, stepsPerRun }: RunsPlan): Promise<void> {
  const counts = await countRuns(query, workflowId);
  const wanted: Counts = { runs, succeeded: runs, steps: runs * stepsPerRun, doubledSteps: 0, gaps: 0 };
  if (JSON.stringify(counts) !== JSON.stringify(wanted)) throw new Error(`Wanted ${JSON.stringify(wanted)}, found ${JSON.stringify(counts)}`);
}
