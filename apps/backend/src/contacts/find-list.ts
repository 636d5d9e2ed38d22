import { rows, type Tx } from '../database/sql.js';

export type FoundList = { id: string; name: string };

const UUID = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;

/**
 * The list with this id, else the one with this name; null when there is neither. It cannot be deleted before the transaction ends.
 * A name may look like an id: the id is asked first.
 */
export async function findList(tx: Tx, idOrName: string): Promise<FoundList | null> {
  const [found] = await rows<FoundList>(
    tx,
    `SELECT id, name FROM lists WHERE id = $1::uuid OR name = $2 ORDER BY id = $1::uuid DESC NULLS LAST LIMIT 1 FOR KEY SHARE`,
    [UUID.test(idOrName) ? idOrName : null, idOrName],
  );
  return found ?? null;
}
