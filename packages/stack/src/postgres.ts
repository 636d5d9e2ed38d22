/**
 * Starts an embedded PostgreSQL on 127.0.0.1, for `npm start`, tests and benchmarks.
 *
 * The programs come from npm; this launcher changes nothing on the machine. It listens on loopback only, opens no unix
 * socket, keeps fsync on, and asks for a password that is random for each data folder. A server that a killed start left
 * on the same folder is stopped first; a folder that a living process uses is refused. Superuser: `postgres`.
 * Not promised: that the wanted port is the one used (see `port` of the answer).
 */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { claim } from './claim.js';
import { endProcess, type Rung } from './end-process.js';
import { freePort } from './free-port.js';
import { ignoreLog, type Log } from './log.js';
import { findPostgresBinaries } from './postgres-binaries.js';
import { ensureData, placeData, postgresEnvironment } from './postgres-data.js';
import { findRecorded } from './process-record.js';
import { ServerDidNotStart, type ServerPlan, type ServerProcess, startServerProcess } from './server-process.js';
import { findUnprivilegedAccount } from './unprivileged-account.js';

export type PostgresOptions = {
  /** Kept between starts. `<dataDir>.password`, `.log`, `.owner` and `.server` lie beside it. */
  readonly dataDir: string;
  /** Wanted port; without one, any free one. A taken port gives the next free one. */
  readonly port?: number;
  readonly log?: Log;
  /** Server settings by name, on top of ours: `{ max_connections: '50' }`. */
  readonly settings?: Readonly<Record<string, string>>;
};

export type PostgresServer = {
  /** `postgres://` URL of the superuser for a database of that name, which need not exist yet. */
  url(database: string): string;
  readonly port: number;
  readonly pid: number;
  readonly version: string;
  /** Where the data really are; not always where they were wanted. */
  readonly dataDir: string;
  /** Resolves with a sentence once the server has ended, wanted or not. */
  readonly exited: Promise<string>;
  /** Fast shutdown: open transactions are rolled back, everything committed is on disk. */
  stop(): Promise<void>;
  /** Signals the postmaster. SIGKILL is a crash: the next start recovers from the write-ahead log. */
  kill(signal: NodeJS.Signals): void;
};

/** Fast, then immediate, then without asking. */
const LADDER: readonly Rung[] = [
  { signal: 'SIGINT', patienceMs: 10_000 },
  { signal: 'SIGQUIT', patienceMs: 5_000 },
  { signal: 'SIGKILL', patienceMs: 5_000 },
];
const READY_WITHIN_MS = 60_000;
const OLD_MEMORY_PATIENCE_MS = 15_000;
const PORT_TRIES = 5;

/** Throws with a sentence for people, carrying the server's log when there is one. */
export async function startPostgres({ dataDir: wanted, port, log = ignoreLog, settings = {} }: PostgresOptions): Promise<PostgresServer> {
  const account = findUnprivilegedAccount();
  const binaries = findPostgresBinaries(account, log);
  const dataDir = placeData(wanted, account, log);
  const owned = claim(`${dataDir}.owner`, 'a process that started PostgreSQL');
  if (owned.kind === 'held') throw new Error(`${dataDir} is in use by ${owned.what} (process ${owned.pid}): stop that one first.`);
  try {
    const recordFile = `${dataDir}.server`;
    const leftOver = findRecorded(recordFile);
    if (leftOver !== undefined) {
      log(`stopping a PostgreSQL that an earlier start left behind (process ${leftOver.pid})`);
      await endProcess(leftOver, LADDER);
    }
    const password = await ensureData(dataDir, binaries, account);
    const plan = (port: number): ServerPlan => ({
      name: 'PostgreSQL',
      command: binaries.postgres,
      args: ['-D', dataDir, '-p', String(port), ...settingArgs({ ...OUR_SETTINGS, ...settings })],
      cwd: dataDir,
      env: postgresEnvironment(dataDir),
      ...(account === undefined ? {} : { uid: account.uid, gid: account.gid }),
      logFile: `${dataDir}.log`,
      recordFile,
      readyWithinMs: READY_WITHIN_MS,
      isReady: async (pid) => saysReady(dataDir, pid),
      ladder: LADDER,
    });
    const { server, port: used } = await startOnSomePort(plan, port);
    void server.exited.then(() => owned.release());
    if (port !== undefined && used !== port) log(`port ${port} is taken, PostgreSQL uses ${used}`);
    return {
      url: (database) => `postgres://postgres:${password}@127.0.0.1:${used}/${encodeURIComponent(database)}`,
      port: used,
      pid: server.pid,
      version: binaries.version,
      dataDir,
      exited: server.exited,
      stop: () => server.stop(),
      kill: (signal) => server.kill(signal),
    };
  } catch (error) {
    owned.release();
    throw error;
  }
}

const OUR_SETTINGS: Readonly<Record<string, string>> = {
  listen_addresses: '127.0.0.1',
  unix_socket_directories: '',
  max_connections: '200',
  timezone: 'UTC',
  log_timezone: 'UTC',
};

function settingArgs(settings: Readonly<Record<string, string>>): string[] {
  return Object.entries(settings).flatMap(([name, value]) => ['-c', `${name}=${value}`]);
}

/** Line 8 of postmaster.pid is what pg_ctl waits for; line 1 tells our server's file from an older one. */
function saysReady(dataDir: string, pid: number): boolean {
  try {
    const lines = readFileSync(join(dataDir, 'postmaster.pid'), 'utf8').split('\n');
    return lines[0]?.trim() === String(pid) && lines[7]?.trim() === 'ready';
  } catch {
    return false;
  }
}

/**
 * Two failures pass by themselves: a port that somebody took between our look and the bind, and, after a SIGKILL,
 * shared memory that the last backends of the dead server still hold for a moment.
 */
async function startOnSomePort(plan: (port: number) => ServerPlan, wanted: number | undefined): Promise<{ server: ServerProcess; port: number }> {
  const memoryFreeBy = Date.now() + OLD_MEMORY_PATIENCE_MS;
  for (let portTries = 1; ; ) {
    const port = await freePort(wanted);
    try {
      return { server: await startServerProcess(plan(port)), port };
    } catch (error) {
      if (!(error instanceof ServerDidNotStart)) throw error;
      if (/pre-existing shared memory block|is already in use by another|could not lock/.test(error.logTail) && Date.now() < memoryFreeBy) await pause(100);
      else if (/Address already in use/.test(error.logTail) && portTries < PORT_TRIES) portTries++;
      else throw error;
    }
  }
}
