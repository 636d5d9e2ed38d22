import type { Json } from '@onward/contracts/json';
import type { Tx } from '../database/sql.js';
import { emitOwnEvents } from '../events/emit-own.js';
import type { EventBus } from '../events/event-bus.js';

/** One event for each of many contacts, in as few statements as for one. */
export async function emitForEach<Thing>(
  tx: Tx,
  bus: EventBus,
  type: string,
  depth: number,
  things: Thing[],
  describe: (thing: Thing) => [contactId: string, payload: Record<string, Json>],
): Promise<void> {
  await emitOwnEvents(
    tx,
    bus,
    things.map((thing) => {
      const [contactId, payload] = describe(thing);
      return { type, contactId, payload, depth };
    }),
  );
}
