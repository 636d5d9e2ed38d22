import { createHash } from 'node:crypto';
import type { Json } from '@onward/contracts/json';
import { FailPoints } from '@onward/wire/fail-points';
import type { ContactInput } from '../../contacts/contact-input.js';
import { upsertContact } from '../../contacts/upsert-contact.js';
import { newId } from '../../database/new-id.js';
import { rows, type Tx } from '../../database/sql.js';
import { type Dispatch, EventBus } from '../../events/event-bus.js';
import { storeEvent } from '../../events/store-event.js';
import { Problem } from '../../http/problem.js';

export type EventInput = {
  id?: string | undefined;
  type: string;
  contact?: ContactInput | undefined;
  payload: Record<string, Json>;
  occurredAt?: string | undefined;
};
export type Accepted = { id: string; contactId: string | null; isRepeated: boolean; dispatched: Dispatch[] };

/**
 * Takes an event in: its contact, its row, and a run or a recorded refusal for each active workflow that matches, all in the caller's
 * transaction. The same id sent again gets the first answer; with another body it is a conflict.
 */
export async function acceptEvent(tx: Tx, input: EventInput, { bus, failPoints }: { bus: EventBus; failPoints: FailPoints }): Promise<Accepted> {
  const bodyHash = createHash('sha256')
    .update(JSON.stringify(sorted(input)))
    .digest();
  if (input.id !== undefined) {
    const known = await readAccepted(tx, input.id, bodyHash);
    if (known) return known;
  }
  const contactId = input.contact ? (await upsertContact(tx, bus, input.contact, 0)).contact.id : null;
  const event = {
    id: input.id ?? newId(),
    type: input.type,
    contactId,
    payload: input.payload,
    occurredAt: input.occurredAt ? new Date(input.occurredAt) : new Date(),
    depth: 0,
  };
  if (!(await storeEvent(tx, event, bodyHash))) {
    // The same event was being accepted at the same time and is there by now.
    const known = await readAccepted(tx, event.id, bodyHash);
    if (known) return known;
    throw new Error(`The event ${event.id} is neither new nor known`);
  }
  failPoints.reach('event.after-insert');
  const dispatched = await bus.listening.dispatch(tx, event);
  failPoints.reach('runs.after-insert');
  return { id: event.id, contactId, isRepeated: false, dispatched };
}

async function readAccepted(tx: Tx, id: string, bodyHash: Buffer): Promise<Accepted | null> {
  const [event] = await rows<{ contactId: string | null; bodyHash: Buffer }>(
    tx,
    'SELECT contact_id AS "contactId", body_hash AS "bodyHash" FROM events WHERE id = $1',
    [id],
  );
  if (!event) return null;
  if (!event.bodyHash.equals(bodyHash))
    throw new Problem('conflict', `An event with the id "${id}" was accepted before with another body`, {
      errors: [{ path: 'id', message: 'belongs to another event' }],
    });
  const dispatched = await rows<Dispatch>(
    tx,
    `SELECT * FROM (
       SELECT jsonb_build_object('workflowId', workflow_id, 'runId', id) AS one, workflow_id FROM runs WHERE event_id = $1
       UNION ALL SELECT jsonb_build_object('workflowId', workflow_id, 'refused', reason), workflow_id FROM run_refusals WHERE event_id = $1
     ) both_kinds ORDER BY workflow_id`,
    [id],
  );
  return { id, contactId: event.contactId, isRepeated: true, dispatched: dispatched.map((row) => (row as unknown as { one: Dispatch }).one) };
}

/** The body with its keys in order, so that the same event written in another order is the same. */
function sorted(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(sorted);
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(
    Object.entries(value)
      .sort(([a], [b]) => (a < b ? -1 : 1))
      .map(([key, item]) => [key, sorted(item)]),
  );
}
