/**
 * The commit log: what the database itself saw of every change of a run, kept by a trigger that the fault suite puts into the installation it
 * tests. The product knows nothing of it.
 *
 * A run's row is locked while it is changed, so the numbers of its entries rise in the order of its commits; what was rolled back is not
 * there. The last entry of a transaction is what it committed.
 */
import type { Query } from './query.js';

/** A commit of one run. `lastEpoch` and `lastSeq` are those of the last frame that changed the run: of this commit, when they are new in it. */
export type Commit = {
  runId: string;
  state: string;
  claimId: string;
  epoch: number;
  seq: number;
  lastEpoch: number;
  lastSeq: number;
  isEnded: boolean;
  at: Date;
};

/** From now on every change of a run is noted. */
export async function keepCommitLog(query: Query): Promise<void> {
  await query(`
    CREATE SCHEMA proof;
    CREATE TABLE proof.commits (
      nth bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
      txid xid8 NOT NULL DEFAULT pg_current_xact_id(),
      at timestamptz NOT NULL DEFAULT clock_timestamp(),
      run_id uuid NOT NULL,
      state text NOT NULL,
      claim_id uuid NOT NULL,
      epoch integer NOT NULL,
      seq integer NOT NULL,
      last_epoch integer NOT NULL,
      last_seq integer NOT NULL,
      is_ended boolean NOT NULL
    );
    CREATE INDEX ON proof.commits (run_id, nth);
    CREATE FUNCTION proof.note() RETURNS trigger LANGUAGE plpgsql AS $$
      BEGIN
        INSERT INTO proof.commits (run_id, state, claim_id, epoch, seq, last_epoch, last_seq, is_ended)
        VALUES (NEW.id, NEW.state, NEW.claim_id, NEW.epoch, NEW.seq, NEW.last_epoch, NEW.last_seq, NEW.ended_at IS NOT NULL);
        RETURN NULL;
      END $$;
    CREATE TRIGGER note AFTER INSERT OR UPDATE ON runs FOR EACH ROW EXECUTE FUNCTION proof.note();
  `);
}

/** All commits by run, each run's in order. */
export async function readCommits(query: Query): Promise<Map<string, Commit[]>> {
  const all = await query<Commit>(
    `SELECT run_id AS "runId", state, claim_id AS "claimId", epoch, seq, last_epoch AS "lastEpoch", last_seq AS "lastSeq", is_ended AS "isEnded", at
     FROM proof.commits entry
     WHERE NOT EXISTS (SELECT 1 FROM proof.commits later WHERE later.run_id = entry.run_id AND later.nth > entry.nth AND later.txid = entry.txid)
     ORDER BY run_id, nth`,
  );
  const byRun = new Map<string, Commit[]>();
  for (const commit of all) {
    const own = byRun.get(commit.runId);
    if (own) own.push(commit);
    else byRun.set(commit.runId, [commit]);
  }
  return byRun;
}

/** What tells the commit of one frame from that of another. */
export function checkpointOf({ lastEpoch, lastSeq }: Commit): string {
  return `${lastEpoch}/${lastSeq}`;
}

/**
 * Invariant 3, of one run: (epoch, seq) never falls from one commit to the next, no frame of an epoch commits after one of a later epoch, and
 * each step is closed by exactly one commit: one that moves the cursor past it, or ends the run on it. Answers the breaches in words.
 */
export function checkCommits(runId: string, commits: readonly Commit[]): string[] {
  const breaches = commits.length === 0 ? [`run ${runId}: nobody saw it being made`] : [];
  const closings = new Map<number, number>();
  commits.forEach((commit, index) => {
    const before = commits[index - 1];
    if (!before) return;
    if (commit.epoch < before.epoch || commit.seq < before.seq) {
      breaches.push(`run ${runId}: fell from epoch ${before.epoch}, step ${before.seq} to epoch ${commit.epoch}, step ${commit.seq}`);
    }
    if (checkpointOf(commit) !== checkpointOf(before) && commit.lastEpoch < before.epoch)
      breaches.push(`run ${runId}: epoch ${commit.lastEpoch} committed when epoch ${before.epoch} had the run`);
    if (before.isEnded) return;
    const upTo = commit.isEnded ? commit.seq : commit.seq - 1;
    for (let seq = before.seq; seq <= upTo; seq += 1) closings.set(seq, (closings.get(seq) ?? 0) + 1);
  });
  const last = commits.at(-1);
  const closed = last ? (last.isEnded ? last.seq : last.seq - 1) : 0;
  for (let seq = 1; seq <= closed; seq += 1) {
    const count = closings.get(seq) ?? 0;
    if (count !== 1) breaches.push(`run ${runId}: step ${seq} was closed by ${count} commits`);
  }
  return breaches;
}

/** The most runs whose frames one transaction committed: how full the fullest shared one was. */
export async function countLargestShared(query: Query): Promise<number> {
  const [fullest] = await query<{ runs: number }>(
    `SELECT count(*)::int AS runs
     FROM (SELECT DISTINCT ON (run_id, last_epoch, last_seq) txid FROM proof.commits WHERE last_seq > 0 ORDER BY run_id, last_epoch, last_seq, nth) AS frames
     GROUP BY txid ORDER BY 1 DESC LIMIT 1`,
  );
  return fullest?.runs ?? 0;
}
