/**
 * One living process at a time may use a folder: a claim is a file that names its holder.
 *
 * A holder that died, however it died, holds nothing. Not promised: safety when three processes contend for a dead
 * claim within the same microseconds (there is no advisory lock in Node); two are told apart.
 */
import { linkSync, readFileSync, renameSync, rmSync } from 'node:fs';
import { birthOf } from './process-birth.js';
import { findRecorded, readRecord, recordProcess } from './process-record.js';

export type ClaimAnswer = { readonly kind: 'claimed'; release(): void } | { readonly kind: 'held'; readonly pid: number; readonly what: string };

/** Claims `file` for this process. `what` tells people who holds it. The folder of the file must exist. */
export function claim(file: string, what: string): ClaimAnswer {
  const draft = `${file}.${process.pid}.claim`;
  recordProcess(draft, process.pid, what);
  const mine = readFileSync(draft, 'utf8');
  try {
    for (;;) {
      if (linkIfFree(draft, file)) return { kind: 'claimed', release: () => releaseIfMine(file, mine) };
      const holder = findRecorded(file);
      if (holder !== undefined) return { kind: 'held', pid: holder.pid, what: holder.what };
      putAside(file);
    }
  } finally {
    rmSync(draft, { force: true });
  }
}

function linkIfFree(draft: string, file: string): boolean {
  try {
    linkSync(draft, file);
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EEXIST') return false;
    throw error;
  }
}

/** Takes a dead claim away; gives it back when a living process replaced it between our look and our move. */
function putAside(file: string): void {
  const aside = `${file}.${process.pid}.dead`;
  try {
    renameSync(file, aside);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return;
    throw error;
  }
  const moved = readRecord(aside);
  if (moved !== undefined && birthOf(moved.pid) === moved.birth) linkIfFree(aside, file);
  rmSync(aside, { force: true });
}

function releaseIfMine(file: string, mine: string): void {
  try {
    if (readFileSync(file, 'utf8') === mine) rmSync(file, { force: true });
  } catch {
    // Gone already: there is nothing left to release.
  }
}
