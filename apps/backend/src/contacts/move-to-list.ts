import { rows, type Tx } from '../database/sql.js';
import type { EventBus } from '../events/event-bus.js';
import { type FoundList, findList } from './find-list.js';
import { joinList } from './join-list.js';
import { leaveList } from './leave-list.js';

export type MoveOfContact =
  | { kind: 'moved'; from: FoundList | null; to: FoundList; left: boolean; joined: boolean }
  | { kind: 'contact_missing' }
  | { kind: 'list_missing'; list: string };

/**
 * Takes a contact off one list, when one is named, and puts it on another, both or neither. Lists go by id or name. Naming the same list
 * twice only joins it. Emits list.left and list.joined for what changed.
 */
export async function moveToList(
  tx: Tx,
  bus: EventBus,
  { contactId, from, to, depth = 0 }: { contactId: string; from: string | null; to: string; depth?: number },
): Promise<MoveOfContact> {
  const [contact] = await rows(tx, 'SELECT 1 FROM contacts WHERE id = $1 FOR KEY SHARE', [contactId]);
  if (!contact) return { kind: 'contact_missing' };
  const source = from === null ? null : await findList(tx, from);
  if (from !== null && !source) return { kind: 'list_missing', list: from };
  const target = await findList(tx, to);
  if (!target) return { kind: 'list_missing', list: to };
  const left = source !== null && source.id !== target.id && (await leaveList(tx, bus, { list: source, contactId, depth }));
  const joined = (await joinList(tx, bus, { list: target, contactIds: [contactId], depth })).length > 0;
  return { kind: 'moved', from: source, to: target, left, joined };
}
