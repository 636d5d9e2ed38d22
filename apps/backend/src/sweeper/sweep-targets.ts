import type { DataSource } from 'typeorm';
import { type Teller, transactAndTell } from '../database/outbox.js';
import { transact, type Tx } from '../database/sql.js';
import { addMissing } from '../targets/add-missing.js';
import type { Batch } from '../targets/batch.js';
import { moveParked } from '../targets/move-parked.js';
import { pickProbes } from '../targets/pick-probes.js';
import { releaseParked } from '../targets/release-parked.js';

/**
 * What a target's time asks for: a probe where a block is over, the parked runs of those that are free, and true times for those that stay. Targets are
 * locked in batches, each in a transaction of its own. `isStopped` is asked between them: what is left then, another pass does.
 */
export async function sweepTargets(source: DataSource, teller: Teller, isStopped: () => boolean = () => false): Promise<void> {
  const inBatches = async (work: (tx: Tx, after: string | null) => Promise<Batch>): Promise<void> => {
    let after: string | null = null;
    do {
      if (isStopped()) return;
      after = (await transactAndTell(source, teller, (tx) => work(tx, after))).next;
    } while (after !== null);
  };
  await transact(source, addMissing);
  await inBatches(pickProbes);
  await inBatches(releaseParked);
  if (!isStopped()) await transactAndTell(source, teller, (tx) => moveParked(tx));
}
