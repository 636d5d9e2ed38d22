/**
 * Ends a process that is not a child of ours (a left-over of a killed start), politely first.
 *
 * Each rung of the ladder is a signal and the time it is given. SIGCONT goes first, since a stopped process hears
 * nothing else. Watches the birth, not the pid, so a stranger that takes over the pid is never signalled.
 */
import { setTimeout as pause } from 'node:timers/promises';
import { birthOf } from './process-birth.js';
import type { ProcessRecord } from './process-record.js';

export type Rung = { readonly signal: NodeJS.Signals; readonly patienceMs: number };

const LOOK_EVERY_MS = 20;

/** Resolves when the process is gone. Throws when it outlives the whole ladder or may not be signalled (EPERM). */
export async function endProcess(record: ProcessRecord, ladder: readonly Rung[]): Promise<void> {
  const isGone = (): boolean => birthOf(record.pid) !== record.birth;
  for (const { signal, patienceMs } of ladder) {
    if (isGone()) return;
    send(record.pid, 'SIGCONT');
    send(record.pid, signal);
    for (const giveUpAt = Date.now() + patienceMs; Date.now() < giveUpAt; await pause(LOOK_EVERY_MS)) if (isGone()) return;
  }
  if (!isGone()) throw new Error(`${record.what} (process ${record.pid}) did not end; end it by hand and try again`);
}

function send(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error;
  }
}
