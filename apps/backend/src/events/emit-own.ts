import type { Json } from '@onward/contracts/json';
import type { Tx } from '../database/sql.js';
import { newId } from '../database/new-id.js';
import type { EventBus } from './event-bus.js';
import { storeEvents } from './store-events.js';

export type OwnEvent = { type: string; contactId: string | null; payload: Record<string, Json>; depth: number };

/** An event Onward itself emits, in the transaction of what caused it. Stored only while something wants its type. */
export function emitOwn(tx: Tx, bus: EventBus, event: OwnEvent): Promise<void> {
  return emitOwnEvents(tx, bus, [event]);
}

/** Many of them, in the order given and in as few statements as one; that nobody wants a type is asked once for all. */
export async function emitOwnEvents(tx: Tx, bus: EventBus, events: readonly OwnEvent[]): Promise<void> {
  if (events.length === 0) return;
  const listeners = await bus.listening.listenersOf(tx, [...new Set(events.map(({ type }) => type))]);
  const wanted = events.filter(({ type }) => listeners.want(type)).map((event) => ({ ...event, id: newId(), occurredAt: new Date() }));
  if (wanted.length === 0) return;
  await storeEvents(tx, wanted);
  await listeners.dispatch(wanted);
}
