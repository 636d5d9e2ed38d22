import { asColumn, type ColumnTypes, fromArrays, toArrays } from '../database/columns.js';
import { newId } from '../database/new-id.js';
import { dropWakeUps, planWakeUp } from '../database/outbox.js';
import { commitWith, inOneGo, type Statement, type Tx } from '../database/sql.js';
import { storableJson } from '../database/storable-json.js';
import type { WorkflowSettings } from '../workflows/workflow-settings.js';
import { reentryKeyOf } from './reentry-key.js';
import type { Run } from './run.entity.js';
import type { RunContext } from './run-context.entity.js';
import type { RunRefusalReason } from './run-refusal.entity.js';

/** A run that is to begin: one contact, or none, through the active version of one workflow. `node` is the version's trigger. */
export type PlannedRun = {
  workflowId: string;
  versionId: string;
  reentry: WorkflowSettings['reentry'];
  node: string;
  contactId: string | null;
  eventId: string | null;
  context: RunContext;
};

export type Refusal = {
  workflowId: string;
  versionId: string | null;
  eventId: string | null;
  contactId: string | null;
  reason: RunRefusalReason;
  detail: string;
};
export type Started = { planned: PlannedRun; runId: string } | { planned: PlannedRun; refused: RunRefusalReason };

/**
 * Writes the pending runs, in the order of workflow and contact and, of one contact in one workflow, in the order given, in the caller's transaction, and has the
 * queue told after its commit. A contact that may not enter (again) gets no run and a recorded refusal instead; a conflict of one never touches the others.
 * `commitBehind`: what is to be written right before, where nothing is to be written after: the transaction is committed then, and the last of it travels with
 * the commit. Locks are taken in one order either way: what stands before, the ledger of those who entered, runs.
 */
export async function startRuns(tx: Tx, planned: readonly PlannedRun[], { commitBehind }: { commitBehind?: readonly Statement[] } = {}): Promise<Started[]> {
  const inOrder = [...planned].sort(inWritingOrder);
  const once = planned.filter(({ reentry, contactId }) => reentry === 'never' && contactId !== null);
  const [barred, before] = once.length > 0 ? [await enterLedger(tx, once, commitBehind), []] : [new Set<PlannedRun>(), commitBehind];
  const tried = inOrder.filter((plan) => !barred.has(plan)).map((plan) => ({ plan, id: newId(), claimId: newId() }));
  const writes = [
    ...(barred.size > 0 ? [recording([...barred].map((plan) => ({ ...plan, reason: 'reentry_never', detail: '' })))] : []),
    ...(tried.length > 0 ? [inserting(tx, tried)] : []),
  ];
  const inserted = new Set<string>();
  try {
    const answers = commitBehind ? await commitWith(tx, [...(before ?? []), ...writes]) : await inOneGo(tx, writes);
    if (tried.length > 0) for (const { id } of answers.at(-1) as { id: string }[]) inserted.add(id);
  } finally {
    dropWakeUps(tx, new Set(tried.flatMap(({ id }) => (inserted.has(id) ? [] : [id]))));
  }
  return [
    ...tried.map(({ plan, id }): Started => (inserted.has(id) ? { planned: plan, runId: id } : { planned: plan, refused: 'reentry_running' })),
    ...[...barred].map((plan): Started => ({ planned: plan, refused: 'reentry_never' })),
  ];
}

/** Everybody who starts runs writes them in this order, so that two who meet on a unique key wait for each other in one direction only. */
function inWritingOrder(a: PlannedRun, b: PlannedRun): number {
  if (a.workflowId !== b.workflowId) return a.workflowId < b.workflowId ? -1 : 1;
  const [one, other] = [a.contactId ?? '', b.contactId ?? ''];
  return one === other ? 0 : one < other ? -1 : 1;
}

/** Re-entry `never`: writes what stands before, and who enters; answers those who stood in the ledger already and may not. */
async function enterLedger(tx: Tx, once: readonly PlannedRun[], before: readonly Statement[] = []): Promise<Set<PlannedRun>> {
  const entering = {
    statement: `
      INSERT INTO run_entries (workflow_id, contact_id)
      SELECT DISTINCT workflow_id, contact_id FROM jsonb_to_recordset($1::jsonb) AS one (workflow_id uuid, contact_id uuid) ORDER BY 1, 2
      ON CONFLICT DO NOTHING RETURNING workflow_id || ':' || contact_id AS key`,
    parameters: [storableJson(once.map(({ workflowId, contactId }) => ({ workflow_id: workflowId, contact_id: contactId })))],
  };
  const answers = await inOneGo(tx, [...before, entering]);
  const free = new Set((answers.at(-1) as { key: string }[]).map(({ key }) => key));
  // Of two plans for one contact in one call only the first may enter.
  return new Set(once.filter(({ workflowId, contactId }) => !free.delete(`${workflowId}:${contactId}`)));
}

type NewRun = Pick<Run, 'id' | 'claimId' | 'workflowId' | 'versionId' | 'contactId' | 'eventId' | 'node' | 'reentryKey'> & {
  nth: number;
  isTold: boolean;
  context: RunContext;
};
const NEW_RUN_TYPES: ColumnTypes<NewRun> = {
  nth: 'integer',
  id: 'uuid',
  claimId: 'uuid',
  workflowId: 'uuid',
  versionId: 'uuid',
  contactId: 'uuid',
  eventId: 'text',
  node: 'text',
  reentryKey: 'uuid',
  isTold: 'boolean',
  context: 'jsonb',
};

/** Writes the runs, and a refusal under the id of each that meets one on its re-entry key; answers the ids of those written. */
const INSERT_RUNS = `
  WITH one AS MATERIALIZED (
    SELECT * FROM ${fromArrays(NEW_RUN_TYPES, 'one')}
  ), clock AS MATERIALIZED (
    SELECT onward_now() AS now
  ), started AS (
    INSERT INTO runs (id, claim_id, workflow_id, version_id, contact_id, event_id, node, reentry_key, state, seq, due_at, created_at, woken_at)
    SELECT id, "claimId", "workflowId", "versionId", "contactId", "eventId", node, "reentryKey",
      'pending', 1, (SELECT now FROM clock), (SELECT now FROM clock), CASE WHEN "isTold" THEN clock_timestamp() END
    FROM one ORDER BY nth
    ON CONFLICT DO NOTHING RETURNING id
  ), kept AS (
    INSERT INTO run_contexts (run_id, context) SELECT id, ${asColumn(NEW_RUN_TYPES, 'one', 'context')} FROM one JOIN started USING (id)
  ), refused AS (
    INSERT INTO run_refusals (id, workflow_id, version_id, event_id, contact_id, reason)
    SELECT id, "workflowId", "versionId", "eventId", "contactId", 'reentry_running' FROM one WHERE NOT EXISTS (SELECT 1 FROM started WHERE started.id = one.id)
    ON CONFLICT DO NOTHING
  )
  SELECT id FROM started`;

function inserting(tx: Tx, tried: readonly { plan: PlannedRun; id: string; claimId: string }[]): Statement {
  const runs = tried.map(({ plan: { workflowId, versionId, contactId, eventId, node, reentry, context }, id, claimId }, nth): NewRun => {
    const isTold = planWakeUp(tx, { runId: id, claimId, workflowId, delayMs: 0 });
    const reentryKey = reentry === 'after_finishing' && contactId !== null ? reentryKeyOf({ workflowId, contactId }) : null;
    return { nth, id, claimId, workflowId, versionId, contactId, eventId, node, reentryKey, isTold, context };
  });
  return { statement: INSERT_RUNS, parameters: toArrays(NEW_RUN_TYPES, runs) };
}

/** Keeps why no run was started; one for each event and workflow. */
export async function recordRefusals(tx: Tx, refusals: readonly Refusal[]): Promise<void> {
  if (refusals.length > 0) await inOneGo(tx, [recording(refusals)]);
}

/** The statement that does. */
export function recording(refusals: readonly Refusal[]): Statement {
  const records = refusals.map((refusal) => ({
    id: newId(),
    workflow_id: refusal.workflowId,
    version_id: refusal.versionId,
    event_id: refusal.eventId,
    contact_id: refusal.contactId,
    reason: refusal.reason,
    detail: refusal.detail.slice(0, 1_000),
  }));
  return {
    statement: `
      INSERT INTO run_refusals (id, workflow_id, version_id, event_id, contact_id, reason, detail)
      SELECT id, workflow_id, version_id, event_id, contact_id, reason, detail FROM jsonb_populate_recordset(null::run_refusals, $1::jsonb)
      ON CONFLICT DO NOTHING`,
    parameters: [storableJson(records)],
  };
}
