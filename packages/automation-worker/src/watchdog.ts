/** What the watchdog looks at: how often a wake-up was handed out so far, whether a place is free, and how many entries wait (null: Valkey cannot say). */
export type Watched = {
  handOuts(): number;
  hasFreePlace(): boolean;
  countWaiting(): Promise<number | null>;
};

export type WatchdogTimes = { /** How often it looks, in ms. */ lookEveryMs: number /** Silence for so long, in ms, is deafness. */; silentForMs: number };

/**
 * Notices a queue that has gone silent: places are free and entries wait, look after look, and none is handed out. Once that has lasted, `rebuild`
 * is called; when it lasts as long again, `giveUp`, once, and the watch is over. A hand-out, a look that finds nothing waiting or no place
 * free, and a Valkey that cannot be asked each end the silence: an outage is no deafness. Answers what ends the watch.
 */
export function watchForSilence(watched: Watched, { lookEveryMs, silentForMs }: WatchdogTimes, act: { rebuild(): void; giveUp(): void }): () => void {
  let silentSinceMs: number | undefined;
  let isRebuilt = false;
  let handOuts = watched.handOuts();
  let timer: NodeJS.Timeout | undefined;
  let isOver = false;

  const look = async (): Promise<void> => {
    const waiting = await watched.countWaiting();
    const isHeard = watched.handOuts() !== handOuts;
    handOuts = watched.handOuts();
    if (isHeard) isRebuilt = false;
    if (isHeard || !watched.hasFreePlace() || waiting === null || waiting === 0) silentSinceMs = undefined;
    else silentSinceMs ??= performance.now();
    if (silentSinceMs === undefined || performance.now() - silentSinceMs < silentForMs || isOver) return;
    silentSinceMs = undefined;
    if (isRebuilt) {
      isOver = true;
      act.giveUp();
    } else {
      isRebuilt = true;
      act.rebuild();
    }
  };

  const next = (): void => {
    timer = setTimeout(() => void look().then(() => !isOver && next()), lookEveryMs);
  };
  next();
  return () => {
    isOver = true;
    clearTimeout(timer);
  };
}
