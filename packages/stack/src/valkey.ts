/**
 * Starts a Valkey (or Redis 7+) on 127.0.0.1 for the job queue of `npm start`, tests and benchmarks.
 *
 * The program is looked for on PATH, then unpacked without root from the machine's Debian or Ubuntu packages into a
 * per-user cache; else the error says how to get one. One line tells which was taken and why. Everything is logged to an
 * append-only file and nothing is ever evicted, as the queue needs it. A server that a killed start left on the same
 * folder is stopped first; a folder that a living process uses is refused. Not promised: that the wanted port is the one used.
 */
import { mkdirSync } from 'node:fs';
import { connect } from 'node:net';
import { resolve } from 'node:path';
import { claim } from './claim.js';
import { endProcess, type Rung } from './end-process.js';
import { freePort } from './free-port.js';
import { ignoreLog, type Log } from './log.js';
import { findRecorded } from './process-record.js';
import { ServerDidNotStart, type ServerPlan, type ServerProcess, startServerProcess } from './server-process.js';
import { unpackValkey } from './unpack-valkey.js';
import { findOnPath, programEnvironment, type ValkeyProgram } from './valkey-program.js';

export type ValkeyOptions = {
  /** Kept between starts. `<dataDir>.log`, `.owner` and `.server` lie beside it. */
  readonly dataDir: string;
  /** Wanted port; without one, any free one. A taken port gives the next free one. */
  readonly port?: number;
  readonly log?: Log;
  /** Whether what was acknowledged survives a restart, but for the last second of a crash; default true. */
  readonly appendOnly?: boolean;
  /** The program to run; default: found by `findValkey`. */
  readonly program?: ValkeyProgram;
};

export type ValkeyServer = {
  readonly url: string;
  readonly port: number;
  readonly pid: number;
  readonly version: string;
  /** For people: which program, of which version, from where. */
  readonly source: string;
  readonly dataDir: string;
  /** Resolves with a sentence once the server has ended, wanted or not. */
  readonly exited: Promise<string>;
  /** Writes what is pending and ends. */
  stop(): Promise<void>;
  kill(signal: NodeJS.Signals): void;
};

const LADDER: readonly Rung[] = [
  { signal: 'SIGTERM', patienceMs: 10_000 },
  { signal: 'SIGKILL', patienceMs: 5_000 },
];
const READY_WITHIN_MS = 60_000;
const PORT_TRIES = 5;

/** The program to use. Logs the choice and its reason; throws with advice when there is none. */
export async function findValkey(log: Log): Promise<ValkeyProgram> {
  const { found, tooOld } = findOnPath();
  for (const program of tooOld) log(`passing over ${program.source}: 7 or newer is needed`);
  if (found !== undefined) {
    log(`queue store: ${found.source}`);
    return found;
  }
  const unpacked = await unpackValkey(log);
  if (!('missing' in unpacked)) {
    log(`queue store: ${unpacked.source}, since there is no valkey-server or redis-server 7 on PATH`);
    return unpacked;
  }
  throw new Error(
    `no Valkey to run the queue on. There is no valkey-server or redis-server 7+ on PATH, and ${unpacked.missing}.\n` +
      'Any of these helps: `brew install valkey` (macOS), `apt install valkey-server` (Debian 13, Ubuntu 24.10 or newer), `docker compose up` for everything in containers,\n' +
      'or VALKEY_URL=redis://host:port for a server you already have.',
  );
}

/** Throws with a sentence for people, carrying the server's log when there is one. */
export async function startValkey({ dataDir: wanted, port, log = ignoreLog, appendOnly = true, program: given }: ValkeyOptions): Promise<ValkeyServer> {
  const program = given ?? (await findValkey(log));
  const dataDir = resolve(wanted);
  mkdirSync(dataDir, { recursive: true, mode: 0o700 });
  const owned = claim(`${dataDir}.owner`, 'a process that started Valkey');
  if (owned.kind === 'held') throw new Error(`${dataDir} is in use by ${owned.what} (process ${owned.pid}): stop that one first.`);
  try {
    const recordFile = `${dataDir}.server`;
    const leftOver = findRecorded(recordFile);
    if (leftOver !== undefined) {
      log(`stopping a Valkey that an earlier start left behind (process ${leftOver.pid})`);
      await endProcess(leftOver, LADDER);
    }
    const plan = (port: number): ServerPlan => ({
      name: 'Valkey',
      command: program.command,
      args: serverArgs(dataDir, port, appendOnly),
      cwd: dataDir,
      env: programEnvironment(program.libraryPath),
      logFile: `${dataDir}.log`,
      recordFile,
      readyWithinMs: READY_WITHIN_MS,
      isReady: () => answersPing(port),
      ladder: LADDER,
    });
    const { server, port: used } = await startOnSomePort(plan, port);
    void server.exited.then(() => owned.release());
    if (port !== undefined && used !== port) log(`port ${port} is taken, Valkey uses ${used}`);
    return {
      url: `redis://127.0.0.1:${used}`,
      port: used,
      pid: server.pid,
      version: program.version,
      source: program.source,
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

function serverArgs(dataDir: string, port: number, appendOnly: boolean): string[] {
  const settings = {
    port: String(port),
    bind: '127.0.0.1',
    dir: dataDir,
    daemonize: 'no',
    appendonly: appendOnly ? 'yes' : 'no',
    appendfsync: 'everysec',
    save: '',
    'maxmemory-policy': 'noeviction',
  };
  return Object.entries(settings).flatMap(([name, value]) => [`--${name}`, value]);
}

async function startOnSomePort(plan: (port: number) => ServerPlan, wanted: number | undefined): Promise<{ server: ServerProcess; port: number }> {
  for (let tries = 1; ; tries++) {
    const port = await freePort(wanted);
    try {
      return { server: await startServerProcess(plan(port)), port };
    } catch (error) {
      const isPortTaken = error instanceof ServerDidNotStart && /Address already in use|Failed listening on port/.test(error.logTail);
      if (!isPortTaken || tries >= PORT_TRIES) throw error;
    }
  }
}

/** Whether the server has loaded its data and answers commands (`-LOADING` comes before that). */
function answersPing(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect({ host: '127.0.0.1', port, timeout: 1_000 });
    const answer = (isReady: boolean): void => {
      socket.destroy();
      resolve(isReady);
    };
    socket.once('error', () => answer(false));
    socket.once('timeout', () => answer(false));
    socket.once('connect', () => socket.write('PING\r\n'));
    socket.once('data', (chunk) => answer(chunk.toString().startsWith('+PONG')));
  });
}
