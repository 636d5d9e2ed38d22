import { Problem } from '../http/problem.js';
import type { VersionReader } from '../workflows/read-version.js';
import { rows } from '../database/sql.js';
import { attemptsOf, type Checkpoint, writeAttempt } from '../runtime/checkpoint.js';
import type { Resolved } from './attempt.entity.js';
import { replayRun, reopenAt } from './replay-run.js';

/** `seq` and `n`: the attempt it is about; `by`: who says so. */
type Answer = { seq: number; n: number; happened: boolean; by: string };

/**
 * A person has found out whether the request happened at which a run was given up. It did: the run goes on behind the step, by the port
 * `next`. It did not: the step is opened again, with the same key and body. Either way the answer is kept on the attempt.
 * A cancelled run stays ended, and only the answer is kept. `seq` and `n` name the attempt that the answer is about: of one at which the run did
 * not end nothing can be said. The same answer about it again changes nothing; another one, or a run that did not end at an uncertain attempt,
 * is a conflict, and a step with no way on is unprocessable.
 */
export async function resolveRun(checkpoint: Checkpoint, { seq, n, happened, by }: Answer, versions: VersionReader): Promise<void> {
  const { run } = checkpoint;
  const attempt = (await attemptsOf(checkpoint, run.seq)).at(-1);
  const before = await answerOf(checkpoint, { seq, n });
  if (before?.happened === happened) return;
  if (before) throw new Problem('conflict', `Run ${run.id} was resolved before, as ${before.happened ? 'happened' : 'not happened'} by ${before.by}`);
  const isEnded = run.state === 'dead_lettered' || run.state === 'cancelled';
  if (!isEnded || attempt?.status !== 'uncertain' || attempt.resolved !== null) {
    throw new Problem('conflict', `Run ${run.id} is ${run.state} and did not end at an uncertain attempt`);
  }
  if (attempt.seq !== seq || attempt.n !== n) {
    const errors = [{ path: 'seq', message: `is not the attempt at which the run ended: seq ${attempt.seq}, n ${attempt.n}` }];
    throw new Problem('conflict', `Run ${run.id} did not end at seq ${seq}, n ${n}`, { errors });
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

async function answerOf({ tx, run }: Checkpoint, { seq, n }: { seq: number; n: number }): Promise<Resolved | null> {
  const [found] = await rows<{ resolved: Resolved | null }>(tx, 'SELECT resolved FROM attempts WHERE run_id = $1 AND seq = $2 AND n = $3', [run.id, seq, n]);
  return found?.resolved ?? null;
}
