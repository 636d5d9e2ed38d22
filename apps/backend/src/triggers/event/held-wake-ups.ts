import type { Outbox, Teller } from '../../database/outbox.js';

/** No wake-up is held longer than this, in ms, and no more of them than this. */
const HELD_FOR_MS = 500;
const MAX_HELD = 500;

/**
 * Holds what the queue is to be told until `release`: while more events come than can be taken in at once, the runs they start are told to it by
 * hundreds and not by the handful. They are moved at a fraction of the cost then, and the events are accepted sooner. What is lost while it is held
 * the sweeper finds.
 */
export class HeldWakeUps implements Teller {
  private held: Outbox['wakeUps'] = [];
  private timer: NodeJS.Timeout | undefined;

  constructor(private readonly teller: Teller) {}

  takes({ planned, ...ask }: Parameters<Teller['takes']>[0]): boolean {
    return this.teller.takes({ ...ask, planned: planned + this.held.length });
  }

  tell({ wakeUps, ...rest }: Outbox): void {
    if (rest.mail.length > 0 || rest.isRunLeft) this.teller.tell({ wakeUps: [], ...rest });
    this.held.push(...wakeUps);
    if (this.held.length >= MAX_HELD) this.release();
    else if (this.held.length > 0) this.timer ??= setTimeout(() => this.release(), HELD_FOR_MS);
  }

  /** Tells what is held, now. */
  release(): void {
    clearTimeout(this.timer);
    this.timer = undefined;
    const wakeUps = this.held;
    this.held = [];
    if (wakeUps.length > 0) this.teller.tell({ wakeUps, mail: [] });
  }
}
