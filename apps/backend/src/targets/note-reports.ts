import type { TargetReport } from '@onward/contracts/targets';
import type { DataSource } from 'typeorm';
import { rows } from '../database/sql.js';
import { MAX_BLOCK_MS } from './change-target.js';

/**
 * Opens the closed targets whose breaker a worker reports as open, under the number that holds now. Anything else in a report changes
 * nothing, and neither does a target that is being changed at this moment: the next renewal reports again.
 */
export async function noteReports(source: DataSource, reports: readonly TargetReport[], resetMs: number): Promise<void> {
  const open = reports.filter(({ breaker }) => breaker === 'open');
  if (open.length === 0) return;
  await rows(
    source,
    `UPDATE targets SET state = 'open', why = 'failed again and again: a worker has stopped sending to it', probe_run_id = NULL, state_since = onward_now(),
       blocked_until = date_trunc('milliseconds', onward_now()) + found."inMs" * interval '1 millisecond'
     FROM (SELECT targets.id, "inMs" FROM targets
           JOIN jsonb_to_recordset($1::jsonb) AS report (origin text, "breakerNo" integer, "inMs" double precision)
             ON report.origin = targets.origin AND report."breakerNo" = targets.breaker_no
           WHERE state = 'closed' ORDER BY targets.id FOR UPDATE OF targets SKIP LOCKED) AS found
     WHERE targets.id = found.id`,
    [JSON.stringify(open.map(({ origin, breakerNo, probesInMs }) => ({ origin, breakerNo, inMs: Math.min(probesInMs ?? resetMs, MAX_BLOCK_MS) })))],
  );
}
