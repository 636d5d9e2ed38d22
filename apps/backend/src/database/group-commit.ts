/**
 * Lets entries that come at the same time share one piece of work: a transaction, a statement, a call. An entry that comes alone goes at once;
 * what comes while every lane is at work waits and goes together as soon as a lane is free. There is no timer.
 *
 * - `lanes`: how many flushes may run at a time. `max`: the weight of one flush; a heavier entry goes by itself. `weightOf`: 1 each unless given.
 * - `flush`: works on the entries, in the order they came, and answers one for one; `isBusy`: is another flush at work now, or could one be? What it throws is the fault of the flush as a whole.
 * - `alone`: works on one entry of a flush that failed, one after another, so that only the entry at fault fails. It hears what was thrown and how many
 *   entries shared the flush. Without it all of them fail with what was thrown.
 * - `isForAll`: would trying entries alone help nobody (the database is away)? Then whoever is left of the flush fails with it at once.
 * - `full`: with the weight that may wait, the refusal of who comes on top of it. Without it any number waits.
 *
 * Answers the function to hand an entry to: it settles when the entry's flush has ended. Not promised: an order between entries of different
 * flushes, or that a flush which threw has undone anything, which is why `flush` is a transaction wherever that matters.
 */
export function createGroupCommit<Entry, Answer>({ lanes, max, weightOf = () => 1, flush, alone, isForAll = () => false, full }: GroupCommit<Entry, Answer>) {
  const waiting: Waiting<Entry, Answer>[] = [];
  let waitingWeight = 0;
  let lanesAtWork = 0;

  function take(): Waiting<Entry, Answer>[] {
    let count = 0;
    let weight = 0;
    for (const one of waiting) {
      if (count > 0 && weight + one.weight > max) break;
      count += 1;
      weight += one.weight;
    }
    waitingWeight -= weight;
    return waiting.splice(0, count);
  }

  async function work(): Promise<void> {
    // What is handed over in one go is there after this, and goes together.
    await Promise.resolve();
    for (let group = take(); group.length > 0; group = take()) await settle(group);
    lanesAtWork -= 1;
  }

  async function settle(group: Waiting<Entry, Answer>[]): Promise<void> {
    let answers: readonly Answer[];
    try {
      answers = await flush(
        group.map(({ entry }) => entry),
        () => lanesAtWork > 1 || waiting.length > 0,
      );
    } catch (error) {
      return settleAlone(group, error);
    }
    group.forEach(({ resolve, reject }, index) => {
      if (index < answers.length) resolve(answers[index] as Answer);
      else reject(new Error('A flush answers once for each entry'));
    });
  }

  async function settleAlone(group: Waiting<Entry, Answer>[], cause: unknown): Promise<void> {
    let forAll = alone === undefined || isForAll(cause) ? { error: cause } : undefined;
    for (const { entry, resolve, reject } of group) {
      if (forAll || !alone) {
        reject(forAll?.error);
        continue;
      }
      try {
        resolve(await alone(entry, { error: cause, size: group.length }));
      } catch (error) {
        reject(error);
        if (isForAll(error)) forAll = { error };
      }
    }
  }

  return (entry: Entry): Promise<Answer> => {
    const weight = weightOf(entry);
    if (full && waitingWeight > 0 && waitingWeight + weight > full.weight) return Promise.reject(full.refusal());
    return new Promise((resolve, reject) => {
      waiting.push({ entry, weight, resolve, reject });
      waitingWeight += weight;
      if (lanesAtWork >= lanes) return;
      lanesAtWork += 1;
      void work();
    });
  };
}

export type GroupCommit<Entry, Answer> = {
  lanes: number;
  max: number;
  weightOf?: (entry: Entry) => number;
  flush: (entries: readonly Entry[], isBusy: () => boolean) => Promise<readonly Answer[]>;
  alone?: (entry: Entry, cause: { error: unknown; size: number }) => Promise<Answer>;
  isForAll?: (error: unknown) => boolean;
  full?: { weight: number; refusal: () => Error };
};

type Waiting<Entry, Answer> = { entry: Entry; weight: number; resolve: (answer: Answer) => void; reject: (reason: unknown) => void };
