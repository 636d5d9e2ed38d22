import { targetKey } from '@onward/contracts/targets';
import { change, type Tx } from '../database/sql.js';
import { PARKED } from './parked.js';

/** Gives targets at which runs are parked and that have no row (one deleted by hand) a new one, or nobody would let these runs go. Answers how many. */
export function addMissing(tx: Tx): Promise<number> {
  // From key to key along the index runs_parked, however many runs have each.
  return change(
    tx,
    `WITH RECURSIVE keys AS (
       (SELECT wait_key AS key FROM runs WHERE ${PARKED} ORDER BY wait_key LIMIT 1)
       UNION ALL
       SELECT (SELECT wait_key FROM runs WHERE ${PARKED} AND wait_key > key ORDER BY wait_key LIMIT 1) FROM keys WHERE key IS NOT NULL)
     INSERT INTO targets (id, origin) SELECT gen_random_uuid(), substr(key, $1) FROM keys
     WHERE key IS NOT NULL AND NOT EXISTS (SELECT 1 FROM targets WHERE origin = substr(key, $1)) ON CONFLICT DO NOTHING`,
    [targetKey('').length + 1],
  );
}
