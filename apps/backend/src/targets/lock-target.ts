import { selectList } from '../database/columns.js';
import { rows, type Tx } from '../database/sql.js';
import { TARGET_COLUMNS } from './target-columns.js';
import type { Target } from './target.entity.js';

/**
 * Locks the row of a target by its origin or its id and reads it. Null when there is none.
 * Order of locks, everywhere: whoever holds a run may wait for one target; whoever holds a target takes runs only where they are free.
 */
export async function lockTarget(tx: Tx, by: { origin: string } | { id: string }): Promise<Target | null> {
  const [column, value] = 'id' in by ? ['id', by.id] : ['origin', by.origin];
  const [found] = await rows<Target>(tx, `SELECT ${selectList(TARGET_COLUMNS)} FROM targets WHERE ${column} = $1 FOR UPDATE`, [value]);
  return found ?? null;
}
