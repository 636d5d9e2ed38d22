/** What is running because of us, so that an interrupted run ends it as well. */
const ends = new Set<() => Promise<void>>();

/** Remembers how to end something that was started; answers the same, to be called once by whoever is done with it. */
export function endLater(end: () => Promise<void>): () => Promise<void> {
  const once = async (): Promise<void> => {
    if (ends.delete(once)) await end();
  };
  ends.add(once);
  return once;
}

/** Ends all that is still there, the youngest first. Throws nothing. */
export async function endAll(): Promise<void> {
  for (const end of [...ends].reverse()) await end().catch(() => undefined);
}
