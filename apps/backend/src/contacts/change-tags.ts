import { prepared, type Tx } from '../database/sql.js';
import type { EventBus } from '../events/event-bus.js';
import { emitOwnEvents } from '../events/emit-own.js';

/** A tag and the contact it is put on or taken off; `depth`: runs between an outside cause and the event this gives rise to. */
export type Tagging = { contactId: string; tag: string; depth: number };

/** Whether the contact is another than before; `contact_missing` when there is none with this id. */
export type ContactChange = { kind: 'changed' | 'unchanged' | 'contact_missing' };

/**
 * Puts tags on contacts or takes them off, in one statement, and emits the event of each that changed; answered in the order asked. A pair that comes twice
 * changes something once. `statement` takes the contacts' ids and the tags, and answers the contacts that are there with their tags that changed.
 */
export async function changeTags(
  tx: Tx,
  bus: EventBus,
  asked: readonly Tagging[],
  { statement, emits }: { statement: string; emits: 'tag.added' | 'tag.removed' },
): Promise<ContactChange[]> {
  const found = await prepared<{ id: string; changed: string[] }>(tx, statement, [asked.map(({ contactId }) => contactId), asked.map(({ tag }) => tag)]);
  const contacts = new Map(found.map(({ id, changed }) => [id, new Set(changed)]));
  const changes = asked.map(({ contactId, tag }): ContactChange => {
    const changed = contacts.get(contactId);
    return { kind: changed === undefined ? 'contact_missing' : changed.delete(tag) ? 'changed' : 'unchanged' };
  });
  const news = asked.filter((_, index) => changes[index]?.kind === 'changed');
  await emitOwnEvents(
    tx,
    bus,
    news.map(({ contactId, tag, depth }) => ({ type: emits, contactId, payload: { tag }, depth })),
  );
  return changes;
}
