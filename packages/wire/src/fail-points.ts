/**
 * Named places where a test can make a process die, throw, or leave something out: the same code runs, and only what the fault suite asks
 * for is different. A process reads them only while the test clock is on, so a production process has none.
 *
 * Written `name:action@n`, several separated by commas: at the n-th time (default the first) `name` is reached, `kill9` ends the process
 * at once, `freeze` stops it (SIGSTOP) until somebody continues it, `throw` throws, `skip` leaves out what stands there; `skip` without `@n` does so every time.
 * `@n-m`: from the n-th to the m-th time, for what is tried again at once.
 */
export const FAIL_POINTS = [
  /** An event is about to be written and committed; its contact stands in the transaction and, where it is taken step by step, all of it. */
  'event.before-commit',
  'commit.before-enqueue',
  /** Nobody waits for the queue, so nobody catches a `throw` here: it is a place to die. */
  'commit.after-enqueue',
  /** What the actions of a flush wrote stands in the transaction; its last writes and the commit have not left. */
  'frame.before-commit',
  'frame.after-commit',
  /** A frame that claimed, handed over a request, recorded an outcome or laid a run to wait has committed; its reply has not left. */
  'claim.after-commit',
  'intent.after-commit',
  'outcome.after-commit',
  'wait.after-commit',
  /** The outcome stands in the transaction and the advance has not begun. */
  'outcome.before-advance',
  /** What was waited for is over and its run is being claimed. */
  'wait.due',
  'action.before-effect',
  'action.after-effect',
  'worker.before-send',
  'worker.after-send',
  'worker.before-record',
  'mail.before-smtp',
  'mail.after-smtp',
  /** The backend has committed that a try began, or what it came to; the gateway has not been answered. */
  'mail.after-begin',
  'mail.after-end',
  /** A result announced on the queue is in hand, or stored, and its job is not done yet. */
  'mail-results.before-store',
  'mail-results.after-store',
] as const;
export type FailPoint = (typeof FAIL_POINTS)[number];

const ACTIONS = ['kill9', 'freeze', 'throw', 'skip'] as const;
type Plan = { action: (typeof ACTIONS)[number]; at: { from: number; to: number } | null; reached: number };

export class FailPoints {
  private readonly plans = new Map<FailPoint, Plan>();

  /** Throws an Error naming what it cannot read. */
  constructor(written = '') {
    for (const entry of written.split(',').filter((text) => text.trim() !== '')) {
      const [, name, action, from, to = from] = /^\s*([a-z.-]+):([a-z0-9]+)(?:@(\d+)(?:-(\d+))?)?\s*$/.exec(entry) ?? [];
      if (!isOneOf(FAIL_POINTS, name) || !isOneOf(ACTIONS, action)) throw new Error(`There is no fail point like "${entry}"`);
      this.plans.set(name, { action, at: from === undefined ? null : { from: Number(from), to: Number(to) }, reached: 0 });
    }
  }

  /** Ends the process, freezes it or throws when that is planned for this time; otherwise nothing. */
  reach(name: FailPoint): void {
    const plan = this.plans.get(name);
    if (!plan || plan.action === 'skip' || !isNow(plan, FIRST)) return;
    if (plan.action === 'throw') throw new Error(`Fail point ${name}`);
    process.kill(process.pid, plan.action === 'freeze' ? 'SIGSTOP' : 'SIGKILL');
  }

  /** Is what stands here to be left out this time? */
  isSkipped(name: FailPoint): boolean {
    const plan = this.plans.get(name);
    return plan?.action === 'skip' && isNow(plan, null);
  }
}

const FIRST = { from: 1, to: 1 };

function isNow(plan: Plan, otherwise: Plan['at']): boolean {
  plan.reached += 1;
  const at = plan.at ?? otherwise;
  return at === null || (plan.reached >= at.from && plan.reached <= at.to);
}

function isOneOf<T extends string>(all: readonly T[], text: string | undefined): text is T {
  return text !== undefined && (all as readonly string[]).includes(text);
}
