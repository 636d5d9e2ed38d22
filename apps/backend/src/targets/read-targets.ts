import type { TargetReport } from '@onward/contracts/targets';
import { selectList } from '../database/columns.js';
import { rows, type Tx } from '../database/sql.js';
import { instantKey, pageOf, type Page, seek } from '../http/page.js';
import { SEEN_LATELY } from '../operations/workers.js';
import type { DataSource } from 'typeorm';
import { PARKED } from './parked.js';
import { TARGET_COLUMNS } from './target-columns.js';
import type { Target } from './target.entity.js';

type WorkerView = Omit<TargetReport, 'origin' | 'breakerNo'> & { workerId: string };
type Row = Target & { at: string; blockedRuns: number; workers: WorkerView[] };

/** A target as people see it: its row, how many runs wait for it, and how the workers that are there find it. */
const SHOWN = `${selectList(TARGET_COLUMNS)}, ${instantKey('created_at')} AS at,
  (SELECT count(*)::int FROM runs WHERE ${PARKED} AND wait_key = 'target:' || origin) AS "blockedRuns",
  (SELECT coalesce(jsonb_agg(jsonb_build_object('workerId', workers.id, 'breaker', report -> 'breaker', 'sending', report -> 'sending',
            'queued', report -> 'queued', 'probesInMs', report -> 'probesInMs') ORDER BY workers.id), '[]')
   FROM workers CROSS JOIN LATERAL jsonb_array_elements(workers.targets) AS report
   WHERE ${SEEN_LATELY} AND report ->> 'origin' = targets.origin) AS workers`;

/** Targets, the newest first. */
export async function listTargets(source: DataSource, page: Page) {
  const { where, parameters, ending } = seek(page, { key: 'created_at', id: 'id', kind: 'instant' }, 0);
  const found = await rows<Row>(source, `SELECT ${SHOWN} FROM targets WHERE ${where} ${ending}`, parameters);
  return pageOf(found, page.limit, ({ at, id }) => [at, id], show);
}

/** One target; null when there is none. */
export async function getTarget(source: DataSource | Tx, id: string) {
  const [found] = await rows<Row>(source, `SELECT ${SHOWN} FROM targets WHERE id = $1`, [id]);
  return found ? show(found) : null;
}

function show({ id, origin, state, why, blockedUntil, stateSince, ratePerSecond, maxConcurrent, blockedRuns, workers, createdAt }: Row) {
  return { id, origin, state, why, blockedUntil, stateSince, ratePerSecond, maxConcurrent, blockedRuns, workers, createdAt };
}
