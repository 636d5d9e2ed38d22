/** What is running because of us, so that an interrupted run ends it as well. */
const ends = new Set<() => Promise<void>>();
let isEnding = false;

/** Remembers how to end something that is started; answers the same, which ends it once however often it is called. Throws once all is being ended. */
export function endLater(end: () => Promise<void>): () => Promise<void> {
  if (isEnding) throw new Error('Interrupted');
  let ending: Promise<void> | undefined;
  const once = (): Promise<void> => {
    ending ??= end().finally(() => ends.delete(once));
    return ending;
  };
  ends.add(once);
  return once;
}

/** Ends all that is still there, the youngest first, and lets nothing be started any more. Throws nothing. */
export async function endAll(): Promise<void> {
  isEnding = true;
  for (const end of [...ends].reverse()) await end().catch(() => undefined);
}
