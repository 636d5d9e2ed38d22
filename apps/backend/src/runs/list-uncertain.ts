import { maskCredentials } from '@onward/contracts/credential-names';
import type { Failure } from '@onward/contracts/outcome';
import type { RunState } from '@onward/contracts/patterns';
import type { DataSource } from 'typeorm';
import { rows } from '../database/sql.js';
import { instantKey, type Page, pageOf, seek } from '../http/page.js';
import type { Resolved } from './attempt.entity.js';

/** Something that may or may not have happened: a request at which its run ended, or a mail; `n` is the attempt, or the try. */
type UncertainOutcome = {
  kind: 'request' | 'mail';
  messageId: string | null;
  runId: string | null;
  runState: RunState | null;
  seq: number | null;
  n: number;
  node: string | null;
  failure: Failure | null;
  resolved: Resolved | null;
  at: Date;
};

/** What nobody has resolved yet, or what was, the newest first. Values under names of credentials are masked. A request that was repeated is as certain as its repeat and is not listed. */
export async function listUncertain(source: DataSource, { isResolved }: { isResolved: boolean }, page: Page) {
  const place = seek(page, { key: 'at', id: 'id', kind: 'instant' }, 0);
  const request = isResolved ? 'attempts.resolved IS NOT NULL' : 'attempts.resolved IS NULL AND ended_run.seq = attempts.seq AND ended_run.n = attempts.n';
  const mail = isResolved ? 'messages.resolved IS NOT NULL' : `messages.state = 'uncertain'`;
  const found = await rows<UncertainOutcome & { id: string; key: string }>(
    source,
    `WITH uncertain AS (
       SELECT run_id AS id, 'request' AS kind, NULL::uuid AS "messageId", run_id AS "runId", ended_run.state AS "runState", attempts.seq, attempts.n, attempts.node,
              failure, resolved, attempts.ended_at AS at
       FROM attempts JOIN runs AS ended_run ON ended_run.id = run_id ${isResolved ? '' : 'AND ended_run.ended_at IS NOT NULL'}
       WHERE attempts.status = 'uncertain' AND ${request}
       UNION ALL
       SELECT messages.id, 'mail', messages.id, messages.run_id, runs.state, messages.seq, try, attempts.node, messages.failure, messages.resolved, messages.ended_at
       FROM messages LEFT JOIN runs ON runs.id = messages.run_id LEFT JOIN attempts ON attempts.run_id = messages.run_id AND attempts.seq = messages.seq AND attempts.n = 1
       WHERE ${mail})
     SELECT *, ${instantKey('at')} AS key FROM uncertain WHERE ${place.where} ${place.ending}`,
    place.parameters,
  );
  return pageOf(
    found,
    page.limit,
    ({ key, id }) => [key, id],
    ({ key: _, id: __, ...outcome }) => ({ ...outcome, failure: maskCredentials(outcome.failure) }),
  );
}
