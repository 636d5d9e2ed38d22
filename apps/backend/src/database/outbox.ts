import type { MailJob, WakeUp } from '@onward/contracts/queues';
import type { DataSource } from 'typeorm';
import { wasGivenUp } from './database-fault.js';
import { type Tx, transact } from './sql.js';

/** A wake-up to be put on the queue; `delayMs` counts from the commit. */
export type PlannedWakeUp = WakeUp & { delayMs: number };

/** What a transaction wants the queues told once it has committed. Hints only: what is lost here the sweeper finds. */
export type Outbox = { wakeUps: PlannedWakeUp[]; mail: MailJob[] };

const outboxes = new WeakMap<Tx, Outbox>();

/** The outbox of a transaction begun by `transactAndTell`. One made otherwise has nobody to tell, and its hints are dropped. */
export function outboxOf(tx: Tx): Outbox {
  const found = outboxes.get(tx);
  if (found) return found;
  const made: Outbox = { wakeUps: [], mail: [] };
  outboxes.set(tx, made);
  return made;
}

/** Who puts hints on the queues. Never throws and never waits for a queue that is away. */
export type Teller = { tell(outbox: Outbox): void };

const TRIES = 3;

/**
 * Runs `work` in a transaction and, once it has committed, tells the queues what it asked for. A transaction that Postgres gave up to end a
 * deadlock wrote nothing and is begun anew at once, three times at most: `work` must not keep anything from a try that threw.
 */
export async function transactAndTell<Result>(source: DataSource, teller: Teller, work: (tx: Tx) => Promise<Result>): Promise<Result> {
  for (let nth = 1; ; nth += 1) {
    const outbox: Outbox = { wakeUps: [], mail: [] };
    try {
      const result = await transact(source, (tx) => {
        outboxes.set(tx, outbox);
        return work(tx);
      });
      if (outbox.wakeUps.length > 0 || outbox.mail.length > 0) teller.tell(outbox);
      return result;
    } catch (error) {
      if (nth === TRIES || !wasGivenUp(error)) throw error;
    }
  }
}
