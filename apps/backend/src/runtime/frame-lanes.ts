/**
 * Which frames share a transaction. What comes while all lanes are busy waits and goes together in the next: a lane that is free takes what
 * is there at the end of the turn, at most MAX_TOGETHER, and no timer is waited for. One run is in a lane once at a time, so that a repeated
 * frame finds what the first one committed. What a lane could not do together (`alone`) is done one by one, MAX_ALONE at the same time.
 *
 * Bounded by what workers have in hand: each run has one frame on its way. Nothing here knows what a frame is.
 */
export type Lanes<Item, Answer> = {
  /** Handles many in one transaction and answers each in its place, once it has committed. Throws when nothing was committed. */
  together(items: readonly Item[]): Promise<(Answer | typeof ALONE)[]>;
  /** Handles one in a transaction of its own. What it throws, its asker is thrown. */
  alone(item: Item): Promise<Answer>;
  /** Is it of no use to try each alone after `together` threw this? Then `refuse` gives the answer. */
  refuse(error: unknown): Answer | null;
};

/** In the place of an answer: this one must be handled in a transaction of its own. */
export const ALONE = Symbol('alone');

export const MAX_LANES = 2;
export const MAX_TOGETHER = 200;
export const MAX_ALONE = 8;

type Waiting<Item, Answer> = { key: string; item: Item; resolve: (answer: Answer | Promise<Answer>) => void };

export function createLanes<Item, Answer>({ together, alone, refuse }: Lanes<Item, Answer>) {
  let waiting: Waiting<Item, Answer>[] = [];
  const inLanes = new Set<string>();
  let lanes = 0;
  let isScheduled = false;
  const forAlone: Waiting<Item, Answer>[] = [];
  let busyAlone = 0;

  const schedule = () => {
    if (isScheduled || lanes === MAX_LANES || waiting.length === 0) return;
    isScheduled = true;
    setImmediate(() => {
      isScheduled = false;
      while (lanes < MAX_LANES) {
        const taken = take();
        if (taken.length === 0) return;
        void flush(taken);
      }
    });
  };

  const take = (): Waiting<Item, Answer>[] => {
    const taken: Waiting<Item, Answer>[] = [];
    const left: Waiting<Item, Answer>[] = [];
    for (const one of waiting) {
      if (taken.length === MAX_TOGETHER || inLanes.has(one.key)) left.push(one);
      else {
        inLanes.add(one.key);
        taken.push(one);
      }
    }
    waiting = left;
    return taken;
  };

  const leave = ({ key }: Waiting<Item, Answer>) => {
    inLanes.delete(key);
    schedule();
  };

  const flush = async (taken: readonly Waiting<Item, Answer>[]): Promise<void> => {
    lanes += 1;
    const answers = await together(taken.map(({ item }) => item)).catch((error: unknown) => {
      const refusal = refuse(error);
      return taken.map(() => refusal ?? ALONE);
    });
    lanes -= 1;
    taken.forEach((one, index) => {
      const answer = answers[index] ?? ALONE;
      if (answer === ALONE) forAlone.push(one);
      else {
        one.resolve(answer as Answer);
        leave(one);
      }
    });
    while (busyAlone < MAX_ALONE && forAlone.length > 0) void runAlone();
    schedule();
  };

  const runAlone = async (): Promise<void> => {
    busyAlone += 1;
    for (let one = forAlone.shift(); one; one = forAlone.shift()) {
      const answer = alone(one.item);
      one.resolve(answer);
      await answer.catch(() => undefined);
      leave(one);
    }
    busyAlone -= 1;
  };

  /** Handles one; of several with the same key one after the other. */
  return (key: string, item: Item): Promise<Answer> =>
    new Promise((resolve) => {
      waiting.push({ key, item, resolve });
      schedule();
    });
}
