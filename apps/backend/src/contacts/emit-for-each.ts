import type { Json } from '@onward/contracts/json';
import type { Tx } from '../database/sql.js';
import { emitOwn } from '../events/emit-own.js';
import type { EventBus } from '../events/event-bus.js';

/** One event for each of many contacts. That nobody wants the type is asked once, so that a large batch costs nothing then. */
export async function emitForEach<Thing>(
  tx: Tx,
  bus: EventBus,
  type: string,
  depth: number,
  things: Thing[],
  describe: (thing: Thing) => [contactId: string, payload: Record<string, Json>],
): Promise<void> {
  if (things.length === 0 || !(await bus.listening.wants(tx, type))) return;
  for (const thing of things) {
    const [contactId, payload] = describe(thing);
    await emitOwn(tx, bus, { type, contactId, payload, depth });
  }
}
