/**
 * Whom PostgreSQL runs as when we are root, which it refuses to be.
 *
 * An existing account is used, `postgres` before `nobody`; no account is ever made, nothing of the machine is changed.
 */
import { execFileSync, spawnSync } from 'node:child_process';

export type Account = { readonly name: string; readonly uid: number; readonly gid: number };

/** The account to change to, or undefined when this process is not root and simply stays who it is. Throws when root finds none. */
export function findUnprivilegedAccount(): Account | undefined {
  if (process.getuid?.() !== 0) return undefined;
  for (const name of ['postgres', 'nobody']) {
    const [uid, gid] = [readId('-u', name), readId('-g', name)];
    if (uid !== undefined && gid !== undefined) return { name, uid, gid };
  }
  throw new Error('PostgreSQL does not run as root, and neither account postgres nor nobody exists: run as a normal user, or set DATABASE_URL.');
}

function readId(flag: '-u' | '-g', name: string): number | undefined {
  try {
    return Number(execFileSync('id', [flag, name], { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] }));
  } catch {
    return undefined;
  }
}

/** Whether the account gets into the folder, tried rather than computed: every folder above it counts, and so do ACLs. */
export function canEnter(account: Account, folder: string): boolean {
  return spawnSync('/bin/sh', ['-c', 'cd "$1"', 'sh', folder], { cwd: '/', uid: account.uid, gid: account.gid, stdio: 'ignore' }).status === 0;
}
