import type { DataSource } from 'typeorm';
import { type Teller, transactAndTell } from '../database/outbox.js';
import { moveParked } from '../targets/move-parked.js';
import { pickProbes } from '../targets/pick-probes.js';
import { releaseParked } from '../targets/release-parked.js';

/** What a target's time asks for: a probe where a block is over, the parked runs of those that are free, and true times for those that stay. */
export async function sweepTargets(source: DataSource, teller: Teller): Promise<void> {
  await transactAndTell(source, teller, pickProbes);
  await transactAndTell(source, teller, releaseParked);
  await transactAndTell(source, teller, (tx) => moveParked(tx));
}
