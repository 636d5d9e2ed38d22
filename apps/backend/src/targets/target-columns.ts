import type { Columns } from '../database/columns.js';
import type { Target } from './target.entity.js';

export const TARGET_COLUMNS: Columns<Target> = {
  id: 'id',
  origin: 'origin',
  state: 'state',
  why: 'why',
  blockedUntil: 'blocked_until',
  probeRunId: 'probe_run_id',
  breakerNo: 'breaker_no',
  ratePerSecond: 'rate_per_second',
  maxConcurrent: 'max_concurrent',
  releasedUntil: 'released_until',
  stateSince: 'state_since',
  createdAt: 'created_at',
};
