import { maskCredentials } from '@onward/contracts/credential-names';
import { targetKey } from '@onward/contracts/targets';
import type { DataSource } from 'typeorm';
import { selectList } from '../database/columns.js';
import { rows } from '../database/sql.js';
import { pageOf, type Page, seek } from '../http/page.js';
import { PARKED } from '../targets/parked.js';
import type { Attempt } from './attempt.entity.js';
import { describeState } from './describe-state.js';
import type { Run } from './run.entity.js';
import type { RunContext } from './run-context.entity.js';
import { ATTEMPT_COLUMNS, RUN_COLUMNS } from './run-columns.js';

export type RunFilter = {
  workflowId?: string | undefined;
  state?: readonly string[] | undefined;
  contactId?: string | undefined;
  eventId?: string | undefined;
  /** An origin: only the runs that wait for it. */
  target?: string | undefined;
};

/** Runs, the newest first. */
export async function listRuns(source: DataSource, filter: RunFilter, page: Page) {
  const place = seek(page, { key: 'id', id: 'id', kind: 'uuid' }, 5);
  const found = await rows<Run>(
    source,
    `SELECT ${selectList(RUN_COLUMNS)} FROM runs
     WHERE ($1::uuid IS NULL OR workflow_id = $1) AND ($2::text[] IS NULL OR state = ANY ($2)) AND ($3::uuid IS NULL OR contact_id = $3)
       AND ($4::text IS NULL OR event_id = $4) AND ($5::text IS NULL OR (wait_key = $5 AND ${PARKED})) AND ${place.where} ${place.ending}`,
    [
      filter.workflowId ?? null,
      filter.state ?? null,
      filter.contactId ?? null,
      filter.eventId ?? null,
      filter.target === undefined ? null : targetKey(filter.target),
      ...place.parameters,
    ],
  );
  return pageOf(found, page.limit, ({ id }) => [id, id], showRun);
}

/**
 * One run with what it was started with, its whole history in order, its mail and its notices. Values under names of credentials are masked.
 * Null when there is none.
 */
export async function getRun(source: DataSource, id: string) {
  const [run] = await rows<Run & { context: RunContext; workflowName: string; versionNumber: number }>(
    source,
    `SELECT ${selectList(RUN_COLUMNS, 'runs')}, context, workflows.name AS "workflowName", number AS "versionNumber"
     FROM runs JOIN run_contexts ON run_id = runs.id JOIN workflows ON workflows.id = runs.workflow_id
       JOIN workflow_versions ON workflow_versions.id = runs.version_id
     WHERE runs.id = $1`,
    [id],
  );
  if (!run) return null;
  const attempts = await rows<Attempt>(source, `SELECT ${selectList(ATTEMPT_COLUMNS)} FROM attempts WHERE run_id = $1 ORDER BY seq, n`, [id]);
  const messages = await rows(
    source,
    'SELECT id, seq, state, try, subject, to_mailbox AS "to", response, failure, skip_reason AS "skipReason", resolved FROM messages WHERE run_id = $1 ORDER BY seq',
    [id],
  );
  const notices = await rows(
    source,
    'SELECT seq, state, node, failure, created_at AS "createdAt", sent_at AS "sentAt" FROM notices WHERE run_id = $1 ORDER BY seq',
    [id],
  );
  return {
    ...showRun(run),
    workflowName: run.workflowName,
    versionNumber: run.versionNumber,
    context: maskCredentials(run.context),
    history: maskCredentials(attempts.map(showAttempt)),
    messages: maskCredentials(messages),
    notices: maskCredentials(notices),
  };
}

/** A run as people see it: where it stands, why, and until when. Who may move it is nobody's business. */
export function showRun(run: Run) {
  const { id, workflowId, versionId, contactId, eventId, state, node, seq, n, dueAt, isHeld, waitReason, unknownNodes, endReason, createdAt, endedAt } = run;
  return {
    id,
    workflowId,
    versionId,
    contactId,
    eventId,
    state,
    why: describeState(run),
    node,
    seq,
    attempt: n,
    dueAt,
    isHeld,
    waitReason,
    unknownNodes,
    endReason,
    createdAt,
    endedAt,
  };
}

function showAttempt({ runId: _runId, epoch: _epoch, ...attempt }: Attempt) {
  return attempt;
}
