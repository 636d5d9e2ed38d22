/**
 * A PostgreSQL data folder: where it lies, its superuser's password, its making.
 *
 * A folder counts as made only after initdb finished: it works in a draft that is renamed at the end, so a start that
 * is killed half-way leaves nothing that looks whole. The password is random for each folder and lies beside it (0600).
 */
import { spawn } from 'node:child_process';
import { createHash, randomBytes } from 'node:crypto';
import { chownSync, existsSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { basename, dirname, join, resolve } from 'node:path';
import { readSearchPath } from './environment.js';
import type { Log } from './log.js';
import { ensureOwnFolder } from './own-folder.js';
import type { PostgresBinaries } from './postgres-binaries.js';
import { type Account, canEnter } from './unprivileged-account.js';

/** For data that the account which runs the server could not reach in their own place. */
const OUTSIDE = '/var/tmp/onward';

/**
 * Where the data of a wanted folder really go: there, or in /var/tmp when the account that runs the server cannot reach
 * it. The same wanted folder always gives the same answer. Makes nothing; the folder of `wanted` must exist.
 */
export function findPlace(wanted: string, account: Account | undefined): string {
  const folder = resolve(wanted);
  if (account === undefined || canEnter(account, dirname(folder))) return folder;
  return join(OUTSIDE, `data-${createHash('sha256').update(folder).digest('hex').slice(0, 12)}`, basename(folder));
}

/** That place, with the folders above it made. Tells where it is while there are no data in it yet. */
export function placeData(wanted: string, account: Account | undefined, log: Log): string {
  const folder = resolve(wanted);
  mkdirSync(dirname(folder), { recursive: true });
  const place = findPlace(folder, account);
  if (place === folder) return folder;
  ensureOwnFolder(OUTSIDE, 0o755);
  ensureOwnFolder(dirname(place), 0o755);
  if (!existsSync(place)) log(`PostgreSQL keeps its data in ${place}, since account ${account?.name} cannot reach ${folder}`);
  return place;
}

/** The environment of initdb and the server: nothing of ours but the search path. */
export function postgresEnvironment(dataDir: string): Record<string, string> {
  return { PATH: readSearchPath(), LC_ALL: 'C', TZ: 'UTC', HOME: dataDir };
}

/** Makes the data folder unless it is there, and answers the superuser's password. Throws when it is of another major version. */
export async function ensureData(dataDir: string, binaries: PostgresBinaries, account: Account | undefined): Promise<string> {
  if (!existsSync(join(dataDir, 'PG_VERSION'))) return makeData(dataDir, binaries, account);
  const found = readFileSync(join(dataDir, 'PG_VERSION'), 'utf8').trim();
  if (found !== binaries.majorVersion) {
    throw new Error(`${dataDir} was made by PostgreSQL ${found}, this is ${binaries.version}: dump and restore it, or move the folder away to begin anew.`);
  }
  return readPassword(dataDir);
}

function passwordFile(dataDir: string): string {
  return `${dataDir}.password`;
}

function readPassword(dataDir: string): string {
  try {
    return readFileSync(passwordFile(dataDir), 'utf8').trim();
  } catch {
    throw new Error(`${passwordFile(dataDir)} is missing, without it ${dataDir} cannot be opened: put it back, or move both away to begin anew.`);
  }
}

async function makeData(dataDir: string, binaries: PostgresBinaries, account: Account | undefined): Promise<string> {
  const password = randomBytes(24).toString('base64url');
  const draft = `${dataDir}.new`;
  const handedOver = `${dataDir}.initial-password`;
  rmSync(draft, { recursive: true, force: true });
  mkdirSync(draft, { recursive: true, mode: 0o700 });
  writeFileSync(handedOver, `${password}\n`, { mode: 0o600 });
  if (account !== undefined) for (const path of [draft, handedOver]) chownSync(path, account.uid, account.gid);
  try {
    const args = ['-D', draft, '-U', 'postgres', '-A', 'scram-sha-256', `--pwfile=${handedOver}`, '-E', 'UTF8', '--locale=C'];
    await runInitdb(binaries.initdb, args, draft, account);
    writeFileSync(passwordFile(dataDir), `${password}\n`, { mode: 0o600 });
    renameSync(draft, dataDir);
  } finally {
    rmSync(handedOver, { force: true });
  }
  return password;
}

function runInitdb(initdb: string, args: readonly string[], cwd: string, account: Account | undefined): Promise<void> {
  return new Promise((resolve, reject) => {
    const ids = account === undefined ? {} : { uid: account.uid, gid: account.gid };
    const child = spawn(initdb, [...args], { cwd, env: postgresEnvironment(cwd), stdio: ['ignore', 'pipe', 'pipe'], windowsHide: true, ...ids });
    let output = '';
    for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk: Buffer) => (output += chunk.toString('utf8')));
    child.once('error', reject);
    child.once('close', (code, signal) => (code === 0 ? resolve() : reject(new Error(`initdb ended with ${code ?? signal}:\n${output.trim()}`))));
  });
}
