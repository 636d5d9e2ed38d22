/**
 * A file that says which process serves a folder or plays a part, so that the next start can find what a crash left.
 *
 * The record holds pid and birth; a record whose process is gone, or whose pid belongs to another process now, is
 * dead and means nothing. Nothing that is not recorded is ever signalled.
 */
import { readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { birthOf } from './process-birth.js';

export type ProcessRecord = { readonly pid: number; readonly birth: string; readonly what: string };

/** Records a living process; does nothing when it is already gone. `what` is for people. */
export function recordProcess(file: string, pid: number, what: string): void {
  const birth = birthOf(pid);
  if (birth === undefined) return;
  const draft = `${file}.${process.pid}.tmp`;
  writeFileSync(draft, `${JSON.stringify({ pid, birth, what } satisfies ProcessRecord)}\n`, { mode: 0o600 });
  renameSync(draft, file);
}

export function forgetProcess(file: string): void {
  rmSync(file, { force: true });
}

/** The recorded process if it still lives, else undefined. */
export function findRecorded(file: string): ProcessRecord | undefined {
  const record = readRecord(file);
  return record !== undefined && birthOf(record.pid) === record.birth ? record : undefined;
}

/** What the file says, living or not; undefined when there is none or it cannot be understood. */
export function readRecord(file: string): ProcessRecord | undefined {
  try {
    const parsed: unknown = JSON.parse(readFileSync(file, 'utf8'));
    return isRecord(parsed) ? parsed : undefined;
  } catch {
    return undefined;
  }
}

function isRecord(value: unknown): value is ProcessRecord {
  if (typeof value !== 'object' || value === null) return false;
  const { pid, birth, what } = value as Partial<Record<keyof ProcessRecord, unknown>>;
  return typeof pid === 'number' && typeof birth === 'string' && typeof what === 'string';
}
