import type { Json } from '@onward/contracts/json';
import type { Tx } from '../database/sql.js';
import { newId } from '../database/new-id.js';
import type { EventBus } from './event-bus.js';
import { storeEvent } from './store-event.js';

/** An event Onward itself emits, in the transaction of what caused it. Stored only while something wants its type. */
export async function emitOwn(
  tx: Tx,
  bus: EventBus,
  event: { type: string; contactId: string | null; payload: Record<string, Json>; depth: number },
): Promise<void> {
  if (!(await bus.listening.wants(tx, event.type))) return;
  const stored = { ...event, id: newId(), occurredAt: new Date() };
  await storeEvent(tx, stored);
  await bus.listening.dispatch(tx, stored);
}
