/**
 * Ends processes that a test made orphans of, however the test ends: they lead process groups of their own and would
 * outlive the whole run. Only while they are the very ones; to be called while they live.
 */
import { onTestFinished } from 'vitest';
import { birthOf } from '../src/process-birth.js';

export function endAfterTest(...pids: readonly (number | undefined)[]): void {
  for (const pid of pids) {
    const birth = birthOf(pid ?? 0);
    if (pid === undefined || birth === undefined) continue;
    onTestFinished(() => {
      if (birthOf(pid) === birth) process.kill(pid, 'SIGKILL');
    });
  }
}
