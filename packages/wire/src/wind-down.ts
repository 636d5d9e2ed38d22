/** What a process that stops needs: wait for the work in hand, but not for ever. */

/** Resolves when the set is empty, whatever its work comes to. */
export async function settled(work: ReadonlySet<Promise<unknown>>): Promise<void> {
  while (work.size > 0) await Promise.allSettled(work);
}

/** Resolves when `work` has ended or `limitMs` have gone by. Throws what `work` throws before that. */
export async function within(limitMs: number, work: Promise<unknown>): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  const limit = new Promise<void>((resolve) => {
    timer = setTimeout(resolve, limitMs);
  });
  await Promise.race([work, limit]);
  clearTimeout(timer);
}
