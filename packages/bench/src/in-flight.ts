/** Does `work` for 0 … count-1, `limit` of them at a time. Ends at the first that throws, with its error. */
export async function inFlight(count: number, limit: number, work: (nth: number) => Promise<unknown>): Promise<void> {
  let next = 0;
  const lane = async (): Promise<void> => {
    while (next < count) {
      const nth = next;
      next += 1;
      await work(nth);
    }
  };
  await Promise.all(Array.from({ length: Math.min(limit, count) }, lane));
}
