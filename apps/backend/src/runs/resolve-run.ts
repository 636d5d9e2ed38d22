import { Problem } from '../http/problem.js';
import type { VersionReader } from '../workflows/read-version.js';
import { rows } from '../database/sql.js';
import { attemptsOf, type Checkpoint, writeAttempt } from '../runtime/checkpoint.js';
import type { Resolved } from './attempt.entity.js';
import { replayRun, reopenAt } from './replay-run.js';

/**
 * A person has found out whether the request happened at which a run was given up. It did: the run goes on behind the step, by the port
 * `next`. It did not: the step is opened again, with the same key and body. Either way the answer is kept on the attempt.
 * A cancelled run stays ended, and only the answer is kept. The same answer again changes nothing; another one, or a run that did not end at
 * an uncertain attempt, is a conflict, and a step with no way on is unprocessable. `by`: who says so.
 */
export async function resolveRun(checkpoint: Checkpoint, { happened, by }: { happened: boolean; by: string }, versions: VersionReader): Promise<void> {
  const { run } = checkpoint;
  const attempt = (await attemptsOf(checkpoint, run.seq)).at(-1);
  const isEnded = run.state === 'dead_lettered' || run.state === 'cancelled';
  if (!isEnded || attempt?.status !== 'uncertain' || attempt.resolved !== null) {
    const before = await lastAnswer(checkpoint);
    if (before?.happened === happened) return;
    const why = before
      ? `was resolved before, as ${before.happened ? 'happened' : 'not happened'} by ${before.by}`
      : `is ${run.state} and did not end at an uncertain attempt`;
    throw new Problem('conflict', `Run ${run.id} ${why}`);
  }
  if (run.state === 'dead_lettered' && happened) {
    const version = await versions.get(checkpoint.tx, run.versionId);
    const next = version.compiled.edgeFrom(run.node, 'next');
    if (next === undefined) throw new Problem('unprocessable', `Nothing follows "${run.node}" by the port "next", so the run cannot go on behind it`);
    await reopenAt(checkpoint, version, next);
  } else if (run.state === 'dead_lettered') {
    await replayRun(checkpoint, {}, versions);
  }
  writeAttempt(checkpoint, { ...attempt, resolved: { happened, by, at: checkpoint.realNow.toISOString() } });
}

async function lastAnswer({ tx, run }: Checkpoint): Promise<Resolved | null> {
  const [found] = await rows<{ resolved: Resolved }>(
    tx,
    'SELECT resolved FROM attempts WHERE run_id = $1 AND resolved IS NOT NULL ORDER BY seq DESC, n DESC LIMIT 1',
    [run.id],
  );
  return found?.resolved ?? null;
}
