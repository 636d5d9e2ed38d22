import { EventBus } from '../../src/events/event-bus.js';
import { rows } from '../../src/database/sql.js';
import type { BackendForTest } from '../backend-for-test.js';

export type Emitted = { type: string; contactId: string | null; payload: Record<string, unknown>; depth: number };

/** Makes a journey wait for each type, so that the events are stored, and answers a reader of those stored since it was asked last. */
export async function listenTo(backend: BackendForTest, types: string[]): Promise<() => Promise<Emitted[]>> {
  for (const event of types) {
    const trigger = { id: 'trigger', type: 'trigger', config: { type: 'event', event } };
    const graph = { nodes: [trigger, { id: 'end', type: 'end' }], edges: [{ from: 'trigger', to: 'end' }] };
    const made = await backend.api<{ id: string }>('POST', '/workflows', { name: `waits for ${event}`, graph, settings: { reentry: 'always' } });
    if (made.status !== 201) throw new Error(`The workflow was refused: ${JSON.stringify(made.body)}`);
    const published = await backend.api('POST', `/workflows/${made.body.id}/publish`);
    if (published.status >= 300) throw new Error(`The workflow was not published: ${JSON.stringify(published.body)}`);
  }
  let last = '00000000-0000-0000-0000-000000000000';
  return async () => {
    const events = await rows<Emitted & { id: string }>(
      backend.source,
      'SELECT id, type, contact_id AS "contactId", payload, depth FROM events WHERE id > $1 ORDER BY id',
      [last],
    );
    last = events.at(-1)?.id ?? last;
    return events.map(({ id: _id, ...event }) => event);
  };
}

export const busOf = (backend: BackendForTest): EventBus => backend.backend.app.get(EventBus, { strict: false });
