import { createHash } from 'node:crypto';
import { prepared, type Tx } from '../database/sql.js';
import { storableJson } from '../database/storable-json.js';
import type { EmittedEvent } from './event-bus.js';

/**
 * Writes the rows of events in one statement, in the order of their ids, so that two who write the same events cannot wait for each other. Answers the
 * ids that are new; one that is there stays as it is. `bodyHash`: the hash of what the emitter sent, of the event itself when not given.
 */
export async function storeEvents(tx: Tx, events: readonly (EmittedEvent & { bodyHash?: Buffer })[]): Promise<Set<string>> {
  if (events.length === 0) return new Set();
  const inOrder = events.toSorted((a, b) => (a.id < b.id ? -1 : a.id > b.id ? 1 : 0));
  const written = await prepared<{ id: string }>(
    tx,
    `INSERT INTO events (id, type, contact_id, payload, body_hash, depth, occurred_at)
     SELECT * FROM unnest($1::text[], $2::text[], $3::uuid[], $4::jsonb[], $5::bytea[], $6::smallint[], $7::timestamptz[])
     ON CONFLICT (id) DO NOTHING RETURNING id`,
    [
      inOrder.map(({ id }) => id),
      inOrder.map(({ type }) => type),
      inOrder.map(({ contactId }) => contactId),
      inOrder.map(({ payload }) => storableJson(payload)),
      inOrder.map((event) => event.bodyHash ?? hashOf(event)),
      inOrder.map(({ depth }) => depth),
      inOrder.map(({ occurredAt }) => occurredAt.toISOString()),
    ],
  );
  return new Set(written.map(({ id }) => id));
}

function hashOf({ id, type, contactId, payload, occurredAt, depth }: EmittedEvent): Buffer {
  return createHash('sha256').update(JSON.stringify({ type, contactId, payload, depth, id, occurredAt })).digest();
}
