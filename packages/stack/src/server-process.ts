/**
 * Runs one server program (PostgreSQL, Valkey) as a child with a process group of its own.
 *
 * Detached, so that Ctrl+C in the terminal reaches only us and the order of stopping stays ours. Output goes to a log
 * file, not to a pipe: the server survives our death undisturbed and the next start, finding its record, ends it.
 * A server that cannot start is reported with the tail of its log. Not promised: restarts; see keep-service.ts.
 */
import { spawn } from 'node:child_process';
import { closeSync, openSync, readFileSync } from 'node:fs';
import { setTimeout as pause } from 'node:timers/promises';
import type { Rung } from './end-process.js';
import { forgetProcess, recordProcess } from './process-record.js';

export type ServerPlan = {
  readonly name: string;
  readonly command: string;
  readonly args: readonly string[];
  readonly cwd: string;
  readonly env: Readonly<Record<string, string>>;
  readonly uid?: number;
  readonly gid?: number;
  readonly logFile: string;
  readonly recordFile: string;
  readonly readyWithinMs: number;
  /** Asked every few milliseconds until it says yes. Must not throw. */
  isReady(pid: number): Promise<boolean>;
  readonly ladder: readonly Rung[];
};

export type ServerProcess = {
  readonly pid: number;
  /** Resolves with a sentence when the process has ended, for whatever reason. */
  readonly exited: Promise<string>;
  /** Ends it politely, harder after each rung's patience. Safe to call twice, and after death. */
  stop(): Promise<void>;
  /** Sends a signal to the server's main process; nothing when it is gone. */
  kill(signal: NodeJS.Signals): void;
};

/** What a failed start knows. `logTail` is the end of the server's own log. */
export class ServerDidNotStart extends Error {
  constructor(
    name: string,
    reason: string,
    readonly logTail: string,
  ) {
    super(`${name} did not start: ${reason}\n${logTail.trim() === '' ? '(its log is empty)' : logTail.trim()}`);
    this.name = 'ServerDidNotStart';
  }
}

const LOOK_EVERY_MS = 15;
const LOG_TAIL_BYTES = 4_000;
/** Servers that run, with the signal that ends each politely. */
const living = new Map<ServerProcess, NodeJS.Signals>();
let isExitWatched = false;

/** Starts the server and resolves once it is ready. Throws ServerDidNotStart. */
export async function startServerProcess(plan: ServerPlan): Promise<ServerProcess> {
  const logDescriptor = openSync(plan.logFile, 'w', 0o600);
  const child = spawn(plan.command, [...plan.args], {
    cwd: plan.cwd,
    env: { ...plan.env },
    stdio: ['ignore', logDescriptor, logDescriptor],
    detached: true,
    windowsHide: true,
    ...(plan.uid === undefined ? {} : { uid: plan.uid }),
    ...(plan.gid === undefined ? {} : { gid: plan.gid }),
  });
  closeSync(logDescriptor);

  let ended: string | undefined;
  const exited = new Promise<string>((resolve) => {
    const end = (sentence: string): void => {
      ended ??= sentence;
      forgetProcess(plan.recordFile);
      resolve(ended);
    };
    child.once('error', (error) => end(`it could not be run: ${error.message}`));
    child.once('exit', (code, signal) => end(signal === null ? `it exited with code ${code}` : `it was ended by ${signal}`));
  });
  const pid = child.pid;
  if (pid === undefined) throw new ServerDidNotStart(plan.name, await exited, '');
  recordProcess(plan.recordFile, pid, plan.name);

  const send = (signal: NodeJS.Signals): void => {
    if (ended === undefined) child.kill(signal);
  };
  const stop = async (): Promise<void> => {
    living.delete(server);
    for (const { signal, patienceMs } of plan.ladder) {
      if (ended !== undefined) return;
      send('SIGCONT');
      send(signal);
      const timer = new AbortController();
      await Promise.race([exited, pause(patienceMs, undefined, { signal: timer.signal }).catch(() => undefined)]);
      timer.abort();
    }
    if (ended === undefined) throw new Error(`${plan.name} (process ${pid}) did not end`);
  };
  const server: ServerProcess = { pid, exited, stop, kill: send };
  living.set(server, plan.ladder[0]?.signal ?? 'SIGTERM');
  void exited.then(() => living.delete(server));
  watchOwnExit();

  for (const giveUpAt = Date.now() + plan.readyWithinMs; ended === undefined; await pause(LOOK_EVERY_MS)) {
    if (await plan.isReady(pid)) return server;
    if (Date.now() >= giveUpAt) {
      await stop();
      throw new ServerDidNotStart(plan.name, `not ready after ${plan.readyWithinMs / 1_000} s`, readTail(plan.logFile));
    }
  }
  throw new ServerDidNotStart(plan.name, ended, readTail(plan.logFile));
}

/** A process that ends without stopping its servers (an uncaught error) at least asks them to end. */
function watchOwnExit(): void {
  if (isExitWatched) return;
  isExitWatched = true;
  process.once('exit', () => {
    for (const [server, signal] of living) server.kill(signal);
  });
}

function readTail(file: string): string {
  try {
    return readFileSync(file).subarray(-LOG_TAIL_BYTES).toString('utf8');
  } catch {
    return '';
  }
}
