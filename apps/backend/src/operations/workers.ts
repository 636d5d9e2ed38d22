import type { WorkerGauges } from '@onward/contracts/frame';
import { Inject, Injectable } from '@nestjs/common';
import type { DataSource } from 'typeorm';
import { VITAL_SOURCE } from '../database/data-source.js';
import { change, rows, type Tx } from '../database/sql.js';
import { storableJson } from '../database/storable-json.js';

/** A worker not heard of for this long is taken for gone: longer than three renewals of the longest usual lease. SQL, of the real clock. */
export const SEEN_LATELY = `seen_at > clock_timestamp() - interval '60 seconds'`;

/** The workers that are there, from what they say of themselves with every renewal to any backend. A view, not a truth: nothing is decided by it. */
@Injectable()
export class Workers {
  /** The pool for what must not wait behind work: a renewal is answered with the count, and readiness shows it. */
  constructor(@Inject(VITAL_SOURCE) private readonly source: DataSource) {}

  /** Keeps what a worker says and answers how many there are, itself included. */
  async note({ workerId, inFlight, targets }: WorkerGauges): Promise<number> {
    const [others] = await rows<{ count: number }>(
      this.source,
      `WITH me AS (
         INSERT INTO workers (id, in_flight, targets) VALUES ($1, $2, $3::jsonb)
         ON CONFLICT (id) DO UPDATE SET seen_at = clock_timestamp(), in_flight = excluded.in_flight, targets = excluded.targets)
       SELECT count(*)::int AS count FROM workers WHERE id <> $1 AND ${SEEN_LATELY}`,
      [workerId, inFlight, storableJson(targets)],
    );
    return 1 + (others?.count ?? 0);
  }

  /** How many are there, and how many runs they have in hand. */
  async summary(): Promise<{ workers: number; runsInHand: number }> {
    const [found] = await rows<{ workers: number; runsInHand: number }>(
      this.source,
      `SELECT count(*)::int AS workers, coalesce(sum(in_flight), 0)::int AS "runsInHand" FROM workers WHERE ${SEEN_LATELY}`,
    );
    return found ?? { workers: 0, runsInHand: 0 };
  }
}

/** Forgets workers that are long gone. */
export function forgetWorkers(tx: Tx): Promise<number> {
  return change(tx, `DELETE FROM workers WHERE seen_at < clock_timestamp() - interval '1 hour'`);
}
