/**
 * Gets Valkey (else Redis) from the machine's own Debian or Ubuntu mirror and unpacks it into a per-user cache.
 *
 * Needs no root and installs nothing: apt reads the machine's settings (mirror, proxy, keys) but keeps its lists and
 * packages in the cache, without running the machine's apt hooks; signatures are checked as always. apt itself says which
 * libraries are missing here. Several starters may do this at the same time: each works in a folder of its own and the
 * first to finish gives the result its name. Not promised: security updates of the cached copy; remove the folder to renew it.
 */
import { execFile } from 'node:child_process';
import { accessSync, constants, existsSync, mkdirSync, mkdtempSync, readdirSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { narrowSources, readAptSources, readDebianRelease } from './apt-sources.js';
import { readCacheHome, readSearchPath } from './environment.js';
import type { Log } from './log.js';
import { ensureOwnFolder } from './own-folder.js';
import { describeProgram, type ValkeyProgram } from './valkey-program.js';

const run = promisify(execFile);
const COMMAND_PATIENCE_MS = 180_000;
const SERVERS = ['valkey-server', 'redis-server'] as const;

/** A program from the cache or freshly unpacked, or the reason why there is none. `cacheFolder` is for tests. */
export async function unpackValkey(log: Log, cacheFolder = findCacheFolder()): Promise<ValkeyProgram | { readonly missing: string }> {
  const release = readDebianRelease();
  if (process.platform !== 'linux' || release === undefined) return { missing: 'this is neither Debian nor Ubuntu, so it cannot be unpacked from packages' };
  try {
    const architecture = (await run('dpkg', ['--print-architecture'], commandOptions())).stdout.trim();
    const place = join(cacheFolder, `valkey-${release.suite}-${architecture}`);
    const cached = describeUnpacked(place);
    if (cached !== undefined) return cached;
    const sources = readAptSources();
    log(`no Valkey or Redis 7 on this machine: unpacking one from the ${release.suite} packages into ${place}`);
    // A release older than Valkey has it in its backports; a mirror without backports still has Redis.
    for (const addBackports of release.isDebianItself ? [true, false] : [false]) {
      const narrowed = narrowSources(sources, release, addBackports);
      if (narrowed === undefined) return { missing: `no source of ${release.suite} packages is set up in /etc/apt` };
      const made = await tryUnpack(cacheFolder, place, narrowed, architecture);
      if (made !== undefined) return made;
    }
    return { missing: `the ${release.suite} packages hold neither Valkey nor Redis 7, or the mirror cannot be reached` };
  } catch (error) {
    return { missing: `it could not be unpacked from packages: ${error instanceof Error ? error.message : String(error)}` };
  }
}

/** In the user's cache; an account without a home that it may write to gets a folder of its own in /var/tmp. */
function findCacheFolder(): string {
  const home = readCacheHome();
  if (home !== undefined) {
    try {
      const folder = join(home, 'onward');
      mkdirSync(folder, { recursive: true, mode: 0o755 });
      accessSync(folder, constants.W_OK | constants.X_OK);
      return folder;
    } catch {
      // Read-only or absent: use the other place.
    }
  }
  return ensureOwnFolder(`/var/tmp/onward-cache-${process.getuid?.() ?? 'user'}`, 0o700);
}

async function tryUnpack(cacheFolder: string, place: string, sources: string, architecture: string): Promise<ValkeyProgram | undefined> {
  const work = mkdtempSync(join(cacheFolder, 'unpacking-'));
  try {
    const options = await setUpApt(work, sources, architecture);
    if (!(await succeeds('apt-get', ['-q', 'update'], options))) return undefined;
    for (const server of SERVERS) {
      const packages = await listMissingPackages(server, options);
      if (packages.length === 0) continue;
      await run('apt-get', ['-q', 'download', ...packages], options);
      for (const file of readdirSync(work).filter((name) => name.endsWith('.deb'))) {
        await run('dpkg-deb', ['-x', file, 'root'], options);
        rmSync(join(work, file));
      }
      if (describeUnpacked(work) === undefined) continue;
      for (const name of readdirSync(work)) if (name !== 'root') rmSync(join(work, name), { recursive: true, force: true });
      giveName(work, place);
      return describeUnpacked(place);
    }
    return undefined;
  } finally {
    rmSync(work, { recursive: true, force: true });
  }
}

type CommandOptions = { readonly cwd?: string; readonly env: Record<string, string>; readonly timeout: number; readonly maxBuffer: number };

function commandOptions(cwd?: string, aptConfig?: string): CommandOptions {
  const env = { PATH: `${readSearchPath()}:/usr/sbin:/sbin`, LC_ALL: 'C', ...(aptConfig === undefined ? {} : { APT_CONFIG: aptConfig }) };
  return { env, timeout: COMMAND_PATIENCE_MS, maxBuffer: 16 * 1024 * 1024, ...(cwd === undefined ? {} : { cwd }) };
}

/** The machine's apt configuration without its hooks, then ours, in one file: apt.conf(5) reads APT_CONFIG before the rest. */
async function setUpApt(work: string, sources: string, architecture: string): Promise<CommandOptions> {
  for (const folder of ['root', 'lists/partial', 'archives/partial', 'sources.d']) mkdirSync(join(work, folder), { recursive: true });
  writeFileSync(join(work, 'sources.d', 'onward.sources'), sources);
  const machine = (await run('apt-config', ['dump'], commandOptions())).stdout.split('\n').filter((line) => !/-Invoke|^APT::Architectures/.test(line));
  const ours = {
    'Dir::Etc::main': '/dev/null',
    'Dir::Etc::parts': '/dev/null',
    'Dir::Etc::sourcelist': '/dev/null',
    'Dir::Etc::sourceparts': join(work, 'sources.d'),
    'Dir::State::lists': join(work, 'lists'),
    'Dir::Cache': work,
    'Dir::Cache::pkgcache': '',
    'Dir::Cache::srcpkgcache': '',
    'Acquire::Languages': 'none',
    'APT::Architectures': architecture,
    'APT::Update::Error-Mode': 'any',
    'APT::Install-Recommends': 'false',
    // The account apt changes to as root could not write into a private cache; apt would say so and go on as root anyway.
    ...(process.getuid?.() === 0 ? { 'APT::Sandbox::User': 'root' } : {}),
  };
  const config = join(work, 'apt.conf');
  writeFileSync(config, [...machine, ...Object.entries(ours).map(([name, value]) => `${name} "${value}";`)].join('\n'));
  return commandOptions(work, config);
}

/** The server and what it needs that this machine lacks; empty when these packages do not have it. */
async function listMissingPackages(server: string, options: CommandOptions): Promise<string[]> {
  try {
    const { stdout } = await run('apt-get', ['-q', '--simulate', 'install', server], options);
    return [...stdout.matchAll(/^Inst (\S+)/gm)].flatMap(([, name]) => name ?? []);
  } catch {
    return [];
  }
}

async function succeeds(command: string, args: readonly string[], options: CommandOptions): Promise<boolean> {
  try {
    await run(command, [...args], options);
    return true;
  } catch {
    return false;
  }
}

/** Another starter may have been faster; then its result stands and ours is dropped. */
function giveName(work: string, place: string): void {
  try {
    renameSync(work, place);
  } catch (error) {
    if (!existsSync(place)) throw error;
  }
}

function describeUnpacked(place: string): ValkeyProgram | undefined {
  const usr = join(place, 'root', 'usr');
  const libraries = existsSync(join(usr, 'lib')) ? readdirSync(join(usr, 'lib')).filter((name) => name.includes('linux-gnu')) : [];
  const libraryPath = libraries.map((name) => join(usr, 'lib', name)).join(':');
  for (const server of SERVERS) {
    const found = describeProgram(join(usr, 'bin', server), libraryPath, 'unpacked from packages into');
    if (found !== undefined && found.isRecent) return found;
  }
  return undefined;
}
