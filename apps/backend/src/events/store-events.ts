import { createHash } from 'node:crypto';
import { asColumn, type ColumnTypes, fromArrays, toArrays } from '../database/columns.js';
import { prepared, type Statement, type Tx } from '../database/sql.js';
import type { EmittedEvent } from './event-bus.js';

/** `bodyHash`: the hash of what the emitter sent; of the event itself when not given. */
type Stored = EmittedEvent & { bodyHash?: Buffer };

const TYPES: ColumnTypes<Required<Omit<Stored, 'contact'>>> = {
  id: 'text',
  type: 'text',
  contactId: 'uuid',
  payload: 'jsonb',
  bodyHash: 'bytea',
  depth: 'smallint',
  occurredAt: 'timestamptz',
};
const STORE = `
  INSERT INTO events (id, type, contact_id, payload, body_hash, depth, occurred_at)
  SELECT id, type, "contactId", ${asColumn(TYPES, 'new', 'payload')}, "bodyHash", depth, "occurredAt" FROM ${fromArrays(TYPES, 'new')}`;
const STORE_NEW = `${STORE} ON CONFLICT (id) DO NOTHING RETURNING id`;

/** Writes the rows of events in one statement. Answers the ids that are new; one that is there stays as it is. */
export async function storeEvents(tx: Tx, events: readonly Stored[]): Promise<Set<string>> {
  if (events.length === 0) return new Set();
  const written = await prepared<{ id: string }>(tx, STORE_NEW, parametersOf(events));
  return new Set(written.map(({ id }) => id));
}

/** The statement that writes the rows of events if all of them are new, and fails if one is not. */
export function storingAll(events: readonly Stored[]): Statement {
  return { statement: STORE, parameters: parametersOf(events) };
}

/** In the order of their ids, so that two who write the same events cannot wait for each other. */
function parametersOf(events: readonly Stored[]): string[] {
  const inOrder = events.toSorted((a, b) => (a.id < b.id ? -1 : a.id > b.id ? 1 : 0));
  return toArrays(
    TYPES,
    inOrder.map((event) => ({ ...event, bodyHash: event.bodyHash ?? hashOf(event) })),
  );
}

function hashOf({ id, type, contactId, payload, occurredAt, depth }: EmittedEvent): Buffer {
  return createHash('sha256').update(JSON.stringify({ type, contactId, payload, depth, id, occurredAt })).digest();
}
