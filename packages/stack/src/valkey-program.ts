/**
 * A Valkey or Redis server program and what it says of itself.
 *
 * Valkey of any version and Redis from 7 on speak what the queue needs; older ones are named in the log and passed over.
 */
import { spawnSync } from 'node:child_process';
import { accessSync, constants } from 'node:fs';
import { dirname, join } from 'node:path';
import { readSearchPath } from './environment.js';

export type ValkeyProgram = {
  readonly command: string;
  /** Folders for the dynamic linker; empty when the system's own are enough. */
  readonly libraryPath: string;
  readonly product: 'Valkey' | 'Redis';
  readonly version: string;
  /** Whether it is 7 or newer. */
  readonly isRecent: boolean;
  /** For people: which program and where it came from. */
  readonly source: string;
};

const OLDEST_MAJOR = 7;

/** Asks a program for its version; undefined when it is none or does not run. */
export function describeProgram(command: string, libraryPath: string, origin: string): ValkeyProgram | undefined {
  try {
    accessSync(command, constants.X_OK);
  } catch {
    return undefined;
  }
  const { stdout, status } = spawnSync(command, ['--version'], { encoding: 'utf8', env: programEnvironment(libraryPath), timeout: 10_000 });
  const [, product, version, major] = /^(\w+) server v=((\d+)[.\d]*)/.exec(stdout ?? '') ?? [];
  if (status !== 0 || version === undefined || (product !== 'Valkey' && product !== 'Redis')) return undefined;
  return { command, libraryPath, product, version, isRecent: Number(major) >= OLDEST_MAJOR, source: `${product} ${version} ${origin} ${dirname(command)}` };
}

export function programEnvironment(libraryPath: string): Record<string, string> {
  return { PATH: readSearchPath(), LC_ALL: 'C', ...(libraryPath === '' ? {} : { LD_LIBRARY_PATH: libraryPath }) };
}

/** The first recent one on the search path, Valkey before Redis, and the ones that were too old. */
export function findOnPath(searchPath = readSearchPath()): { readonly found: ValkeyProgram | undefined; readonly tooOld: readonly ValkeyProgram[] } {
  const tooOld: ValkeyProgram[] = [];
  const folders = searchPath.split(':').filter((folder) => folder.startsWith('/'));
  for (const name of ['valkey-server', 'redis-server']) {
    for (const folder of folders) {
      const program = describeProgram(join(folder, name), '', 'found on PATH in');
      if (program?.isRecent === true) return { found: program, tooOld };
      if (program !== undefined) tooOld.push(program);
    }
  }
  return { found: undefined, tooOld };
}
