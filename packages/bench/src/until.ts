/** Waits for what happens in other processes, which cannot tell us: looks every `everyMs` (100 unless said) and throws with `what` after `withinMs`. */
import { setTimeout as pause } from 'node:timers/promises';

export async function until(what: string, isSo: () => Promise<boolean>, { withinMs = 600_000, everyMs = 100 } = {}): Promise<void> {
  const deadline = performance.now() + withinMs;
  while (!(await isSo())) {
    if (performance.now() > deadline) throw new Error(`Not within ${withinMs / 1_000} s: ${what}`);
    await pause(everyMs);
  }
}
