/**
 * A list that can be waited on: tests ask for what they need to see and are told the moment it is there.
 *
 * Nothing polls: every change, an addition or a change of an item, looks at the waiting predicates once.
 */
export type WatchedList<Item> = {
  all(): readonly Item[];
  add(item: Item): void;
  /** Tells the list that an item in it has changed. */
  touch(): void;
  clear(): void;
  /** Resolves with all items once the predicate holds of them; throws, saying how many there were, after `timeoutMs`. */
  waitFor(predicate: (items: readonly Item[]) => boolean, timeoutMs?: number): Promise<readonly Item[]>;
};

const DEFAULT_PATIENCE_MS = 10_000;

export function createWatchedList<Item>(initial: readonly Item[], what: string): WatchedList<Item> {
  let items: Item[] = [...initial];
  const watchers = new Set<() => void>();
  const touch = (): void => {
    for (const look of [...watchers]) look();
  };
  return {
    all: () => items,
    add: (item) => {
      items.push(item);
      touch();
    },
    touch,
    clear: () => {
      items = [];
      touch();
    },
    waitFor: (predicate, timeoutMs = DEFAULT_PATIENCE_MS) =>
      new Promise((resolve, reject) => {
        const look = (): void => {
          try {
            if (!predicate(items)) return;
            resolve([...items]);
          } catch (error) {
            reject(error);
          }
          clearTimeout(timer);
          watchers.delete(look);
        };
        const timer = setTimeout(() => {
          watchers.delete(look);
          reject(new Error(`still waiting after ${timeoutMs} ms; ${items.length} ${what} so far`));
        }, timeoutMs);
        watchers.add(look);
        look();
      }),
  };
}
