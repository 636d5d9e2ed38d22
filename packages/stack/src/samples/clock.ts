/** The clock of due times: the real one, or Onward's test clock, which can be moved forward. */
import type { Api } from './api.js';

export type Clock = {
  now(): Date;
  /** Undefined when it is the real one. Answers after everything that the move made due has been woken. */
  readonly moveTo: ((instant: string) => Promise<void>) | undefined;
};

export const realClock: Clock = { now: () => new Date(), moveTo: undefined };

/** Asks for the present instant first, so that `now` is right from the start. */
export async function openTestClock(api: Api): Promise<Clock> {
  let aheadMs = 0;
  const move = async (byMs: number): Promise<void> => {
    const { now } = await api.post<{ now: string }>('/test/clock', { advance: `PT${byMs / 1_000}S` });
    aheadMs = Date.parse(now) - Date.now();
  };
  await move(0);
  const now = (): Date => new Date(Date.now() + aheadMs);
  // By how far and not to where: an instant that passes while the call is on its way would be a move backwards.
  const moveTo = (instant: string): Promise<void> => move(Math.max(0, Date.parse(instant) - now().getTime()));
  return { now, moveTo };
}
