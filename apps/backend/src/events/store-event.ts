import { createHash } from 'node:crypto';
import { rows, type Tx } from '../database/sql.js';
import { storableJson } from '../database/storable-json.js';
import type { EmittedEvent } from './event-bus.js';

/** Writes the event row. Answers false, and writes nothing, when one with this id is there. */
export async function storeEvent(tx: Tx, event: EmittedEvent, bodyHash: Buffer = hashOf(event)): Promise<boolean> {
  const written = await rows(
    tx,
    `INSERT INTO events (id, type, contact_id, payload, body_hash, depth, occurred_at)
     VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT (id) DO NOTHING RETURNING id`,
    [event.id, event.type, event.contactId, storableJson(event.payload), bodyHash, event.depth, event.occurredAt],
  );
  return written.length === 1;
}

function hashOf(event: EmittedEvent): Buffer {
  return createHash('sha256').update(JSON.stringify(event)).digest();
}
