/**
 * `npm start -- --fresh`: removes what Onward keeps for this checkout, so that the next moment is like the first start.
 *
 * The database may lie outside of `.onward/` (see postgres-data.ts); it goes with it, since one without the other is of no
 * use: the API key and the key of stored secrets are in `.onward/`. Servers that a killed start left on the data are ended
 * first. The claim on the checkout, held by the caller, stays. Not promised: anything about servers given by a URL.
 */
import { existsSync, lstatSync, readdirSync, rmSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { endProcess } from './end-process.js';
import type { Log } from './log.js';
import { findPlace } from './postgres-data.js';
import { findRecorded } from './process-record.js';
import { findUnprivilegedAccount } from './unprivileged-account.js';

const LADDER = [
  { signal: 'SIGINT', patienceMs: 15_000 },
  { signal: 'SIGKILL', patienceMs: 5_000 },
] as const;

/** The folder outside of `homeFolder` in which the database lies for this account, when it is there. Throws when it is another account's. */
export function findOutsideData(homeFolder: string): string | undefined {
  const wanted = join(homeFolder, 'postgres');
  const place = findPlace(wanted, findUnprivilegedAccount());
  const folder = dirname(place);
  if (place === wanted || !existsSync(folder)) return undefined;
  if (lstatSync(folder).uid !== process.getuid?.()) throw new Error(`${folder} belongs to another account`);
  return folder;
}

/** Whether a database of an earlier start is there while `homeFolder`, with the keys to it, has been removed. */
export function hasLostItsKeys(homeFolder: string): boolean {
  if (existsSync(join(homeFolder, 'secrets.json'))) return false;
  const outside = findOutsideData(homeFolder);
  return outside !== undefined && existsSync(join(outside, 'postgres', 'PG_VERSION'));
}

/** Says what it removes, and removes it. Throws when a server on the data cannot be ended. */
export async function forgetCheckout(homeFolder: string, log: Log): Promise<void> {
  const outside = findOutsideData(homeFolder);
  log(`--fresh: removing all data of this checkout, in ${homeFolder}${outside === undefined ? '' : ` and ${outside}`}`);
  for (const folder of [homeFolder, join(homeFolder, 'once'), ...(outside === undefined ? [] : [outside])]) {
    for (const name of listFolder(folder).filter((entry) => entry.endsWith('.server'))) {
      const left = findRecorded(join(folder, name));
      if (left !== undefined) await endProcess(left, LADDER);
    }
  }
  if (outside !== undefined) rmSync(outside, { recursive: true, force: true });
  for (const name of listFolder(homeFolder).filter((entry) => entry !== 'run')) rmSync(join(homeFolder, name), { recursive: true, force: true });
}

function listFolder(folder: string): readonly string[] {
  return existsSync(folder) ? readdirSync(folder) : [];
}
