import type { Outbox, Teller } from '../../database/outbox.js';

/** No wake-up is held longer than this, in ms, and no more of them than this. */
const HELD_FOR_MS = 500;
const MAX_HELD = 500;

/**
 * While more events come than can be taken in at once, the runs they start are told to the queue by hundreds and not by the handful: they are moved at a
 * fraction of the cost then, and the events are accepted sooner. Nothing is held as soon as no event waits. What is lost while it is held the sweeper finds.
 */
export class HeldWakeUps {
  private held: Outbox['wakeUps'] = [];
  private release: NodeJS.Timeout | undefined;

  constructor(private readonly teller: Teller) {}

  /** A teller for one transaction; `isBusy` is asked once it has committed. */
  while(isBusy: () => boolean): Teller {
    return {
      takes: ({ planned, ...ask }) => this.teller.takes({ ...ask, planned: planned + this.held.length }),
      tell: ({ wakeUps, mail }) => {
        this.held.push(...wakeUps);
        if (mail.length > 0) this.teller.tell({ wakeUps: [], mail });
        if (!isBusy() || this.held.length >= MAX_HELD) this.tell();
        else this.release ??= setTimeout(() => this.tell(), HELD_FOR_MS);
      },
    };
  }

  /** Tells what is held, now. */
  tell(): void {
    clearTimeout(this.release);
    this.release = undefined;
    const wakeUps = this.held;
    this.held = [];
    if (wakeUps.length > 0) this.teller.tell({ wakeUps, mail: [] });
  }
}
