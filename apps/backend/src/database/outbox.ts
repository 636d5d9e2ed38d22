import type { MailJob, WakeUp } from '@onward/contracts/queues';
import type { DataSource } from 'typeorm';
import { wasGivenUp } from './database-fault.js';
import { type Tx, transact } from './sql.js';

/** A wake-up to be put on the queue, in the turn of its workflow; `delayMs` counts from the commit. */
export type PlannedWakeUp = WakeUp & { workflowId: string; delayMs: number };

/**
 * What a transaction wants the queues told once it has committed. Hints only: what is lost here the sweeper finds. `isRunLeft`: it leaves a run that is due, or soon, in
 * its row for want of room on the queue; told of it before the commit, the sweeper would look for a run it cannot see yet.
 */
export type Outbox = { wakeUps: PlannedWakeUp[]; mail: MailJob[]; isRunLeft?: boolean };

/**
 * Who puts hints on the queues. Never throws and never waits for a queue that is away. `takes` answers from memory: would the queue take one
 * more wake-up of the workflow, due now or later, on top of so many that are planned already?
 */
export type Teller = { tell(outbox: Outbox): void; takes(ask: { workflowId: string; planned: number; isDelayed: boolean }): boolean };

const outboxes = new WeakMap<Tx, { outbox: Outbox; takes: Teller['takes'] }>();

/** The outbox of a transaction begun by `transactAndTell`. One made otherwise has nobody to tell, and its hints are dropped. */
export function outboxOf(tx: Tx): Outbox {
  return (outboxes.get(tx) ?? open(tx, { wakeUps: [], mail: [] }, () => false)).outbox;
}

/**
 * Plans the wake-up of a run: the one way for whoever writes `woken_at`. Answers whether the queue is told after the commit; only then the
 * caller sets `woken_at` with its write. Otherwise (the queue is long or away, or nobody tells) it stays null, and the sweeper finds the
 * run as one that was never woken. Not promised: that the queue then takes it; what is lost on the way the sweeper finds as lost.
 */
export function planWakeUp(tx: Tx, wakeUp: PlannedWakeUp): boolean {
  const { outbox, takes } = outboxes.get(tx) ?? open(tx, { wakeUps: [], mail: [] }, () => false);
  if (!takes({ workflowId: wakeUp.workflowId, planned: outbox.wakeUps.length, isDelayed: wakeUp.delayMs > 0 })) {
    outbox.isRunLeft = true;
    return false;
  }
  outbox.wakeUps.push(wakeUp);
  return true;
}

/** Takes back the plans for runs that were not written after all. */
export function dropWakeUps(tx: Tx, runIds: ReadonlySet<string>): void {
  const outbox = outboxOf(tx);
  outbox.wakeUps = outbox.wakeUps.filter(({ runId }) => !runIds.has(runId));
}

function open(tx: Tx, outbox: Outbox, takes: Teller['takes']) {
  const opened = { outbox, takes };
  outboxes.set(tx, opened);
  return opened;
}

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
        open(tx, outbox, (ask) => teller.takes(ask));
        return work(tx);
      });
      if (outbox.wakeUps.length > 0 || outbox.mail.length > 0 || outbox.isRunLeft) teller.tell(outbox);
      return result;
    } catch (error) {
      if (nth === TRIES || !wasGivenUp(error)) throw error;
    }
  }
}
