import { rows, type Tx } from '../database/sql.js';
import type { EventBus } from '../events/event-bus.js';
import { emitForEach } from './emit-for-each.js';
import type { FoundList } from './find-list.js';

/** Puts contacts on a list and answers those that were not on it; emits list.joined for each. List and contacts exist and are held by the caller. */
export async function joinList(
  tx: Tx,
  bus: EventBus,
  { list, contactIds, depth = 0 }: { list: FoundList; contactIds: string[]; depth?: number },
): Promise<string[]> {
  if (contactIds.length === 0) return [];
  const joined = await rows<{ contactId: string }>(
    tx,
    `INSERT INTO list_members (list_id, contact_id)
     SELECT $1, contact_id FROM unnest($2::uuid[]) AS contact_id ORDER BY contact_id
     ON CONFLICT DO NOTHING RETURNING contact_id AS "contactId"`,
    [list.id, contactIds],
  );
  await emitForEach(tx, bus, 'list.joined', depth, joined, ({ contactId }) => [contactId, { listId: list.id, list: list.name }]);
  return joined.map(({ contactId }) => contactId);
}
