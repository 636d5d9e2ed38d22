/**
 * Ends what a killed start left running, before anything new looks at ports or data.
 *
 * Only processes with a record in the run folder are touched, and only while they are the very ones recorded. Those that
 * work behind the backend end before it.
 */
import { existsSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { endProcess } from './end-process.js';
import type { Log } from './log.js';
import { findRecorded, forgetProcess } from './process-record.js';

const LADDER = [
  { signal: 'SIGTERM', patienceMs: 30_000 },
  { signal: 'SIGKILL', patienceMs: 5_000 },
] as const;

/** `last` is ended after all others. Throws when one cannot be ended. */
export async function endLeftOvers(runDir: string, last: string, log: Log): Promise<void> {
  if (!existsSync(runDir)) return;
  const files = readdirSync(runDir).filter((name) => name.endsWith('.json'));
  const end = async (name: string): Promise<void> => {
    const file = join(runDir, name);
    const record = findRecorded(file);
    if (record !== undefined) {
      log(`ending ${record.what} of an earlier start (process ${record.pid})`);
      await endProcess(record, LADDER);
    }
    forgetProcess(file);
  };
  await Promise.all(files.filter((name) => name !== `${last}.json`).map(end));
  await Promise.all(files.filter((name) => name === `${last}.json`).map(end));
}
