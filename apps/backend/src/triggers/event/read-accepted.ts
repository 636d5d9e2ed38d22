import { prepared, type Tx } from '../../database/sql.js';
import type { Dispatch } from '../../events/event-bus.js';

/** An event that was accepted before: whom it concerned, the hash of its body, and what it led to, in the order of workflows. */
export type AcceptedBefore = { contactId: string | null; bodyHash: Buffer; dispatched: Dispatch[] };

/** Which of these ids are events that were accepted before. */
export async function readAccepted(tx: Tx, ids: readonly string[]): Promise<Map<string, AcceptedBefore>> {
  if (ids.length === 0) return new Map();
  const found = await prepared<AcceptedBefore & { id: string }>(
    tx,
    `SELECT id, contact_id AS "contactId", body_hash AS "bodyHash", (
       SELECT coalesce(jsonb_agg(one ORDER BY workflow_id), '[]') FROM (
         SELECT workflow_id, jsonb_build_object('workflowId', workflow_id, 'runId', runs.id) AS one FROM runs WHERE event_id = events.id
         UNION ALL
         SELECT workflow_id, jsonb_build_object('workflowId', workflow_id, 'refused', reason) FROM run_refusals WHERE event_id = events.id
       ) AS both_kinds
     ) AS dispatched
     FROM events WHERE id = ANY ($1::text[])`,
    [ids],
  );
  return new Map(found.map(({ id, ...event }) => [id, event]));
}
