/**
 * Says how things stand only when they have changed since the last start: which program, from where, with which data.
 *
 * A line is `<what>: <how it is>`, and what was said last of each is kept in a file. A file that is lost or broken only
 * makes the lines come again.
 */
import { readFileSync, writeFileSync } from 'node:fs';
import type { Log } from './log.js';

/** The folder of `file` must exist. */
export function tellOnce(file: string, log: Log): Log {
  const said = readSaid(file);
  return (line) => {
    const what = line.split(':', 1)[0] ?? line;
    if (said.get(what) === line) return;
    said.set(what, line);
    writeFileSync(file, `${JSON.stringify(Object.fromEntries(said), null, 2)}\n`);
    log(line);
  };
}

function readSaid(file: string): Map<string, unknown> {
  try {
    const parsed: unknown = JSON.parse(readFileSync(file, 'utf8'));
    return new Map(typeof parsed === 'object' && parsed !== null ? Object.entries(parsed) : []);
  } catch {
    return new Map();
  }
}
