/**
 * Keeps one program running: starts it directly (never through npx or a shell), restarts it when it dies, stops it in time.
 *
 * A child leads a process group of its own, so Ctrl+C in the terminal reaches only us and we decide the order of stopping.
 * Its pid is kept in a file: when we are killed without a chance to clean up, the next start ends what is left before it
 * starts anew. Nothing is ever signalled that was not started here. Not promised: ending the grandchildren of a child
 * that had to be ended by SIGKILL.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout as pause } from 'node:timers/promises';
import { endProcess, type Rung } from './end-process.js';
import type { Log } from './log.js';
import { findRecorded, forgetProcess, recordProcess } from './process-record.js';

export type SupervisedPlan = {
  /** For people, and for the pid file. Letters, digits and hyphens. */
  readonly name: string;
  /** Default: this Node. */
  readonly command?: string;
  readonly args: readonly string[];
  /** The child's whole environment. */
  readonly env: Readonly<Record<string, string>>;
  readonly cwd: string;
  /** Hears of starts and ends, and each line of the child's output. */
  readonly log: Log;
  /** Where the pid file lies. */
  readonly runDir: string;
  /** How long a child may take to end after SIGTERM before SIGKILL; default 15 s. */
  readonly stopWithinMs?: number;
  /** The longest pause before a restart; default 5 s. */
  readonly longestBackoffMs?: number;
  /** Told the pid at every start, the first included. */
  readonly onStart?: (pid: number) => void;
};

export type Supervised = {
  readonly name: string;
  /** Undefined between a death and the restart, and after the stop. */
  pid(): number | undefined;
  /** Starts after the first. */
  countRestarts(): number;
  /** Signals the child; whatever that does to it, it is restarted. Nothing when there is none. */
  kill(signal: NodeJS.Signals): void;
  /** SIGTERM, after the deadline SIGKILL; resolves when the child is gone and will not come back. Safe to call twice. */
  stop(): Promise<void>;
};

const FIRST_BACKOFF_MS = 200;
const DEFAULT_LONGEST_BACKOFF_MS = 5_000;
/** A child that lived this long had a good start: the next death begins with the shortest backoff again. */
const GOOD_LIFE_MS = 10_000;
const DEFAULT_STOP_WITHIN_MS = 15_000;
const KILL_PATIENCE_MS = 5_000;

/** Ends left-overs of an earlier supervisor, then starts the child. Throws when a left-over cannot be ended or the program cannot be run at all. */
export async function supervise(plan: SupervisedPlan): Promise<Supervised> {
  const { name, log, runDir, stopWithinMs = DEFAULT_STOP_WITHIN_MS, longestBackoffMs = DEFAULT_LONGEST_BACKOFF_MS } = plan;
  mkdirSync(runDir, { recursive: true });
  const recordFile = join(runDir, `${name}.json`);
  const ladder: readonly Rung[] = [
    { signal: 'SIGTERM', patienceMs: stopWithinMs },
    { signal: 'SIGKILL', patienceMs: KILL_PATIENCE_MS },
  ];
  const leftOver = findRecorded(recordFile);
  if (leftOver !== undefined) {
    log(`ending ${name} of an earlier start (process ${leftOver.pid})`);
    await endProcess(leftOver, ladder);
  }

  const stopping = new AbortController();
  let running: { child: ChildProcess; ended: Promise<string> } | undefined;
  let restarts = 0;

  const start = (): { ended: Promise<string> } => {
    const started = spawnChild(plan);
    running = started;
    const { pid } = started.child;
    if (pid !== undefined) {
      recordProcess(recordFile, pid, name);
      plan.onStart?.(pid);
    }
    return started;
  };

  const keepRunning = async (first: { ended: Promise<string> }): Promise<void> => {
    let backoffMs = FIRST_BACKOFF_MS;
    for (let current = first; ; restarts++) {
      const bornAt = Date.now();
      const how = await current.ended;
      running = undefined;
      forgetProcess(recordFile);
      if (stopping.signal.aborted) return;
      if (Date.now() - bornAt >= GOOD_LIFE_MS) backoffMs = FIRST_BACKOFF_MS;
      log(`${how}; starting again in ${backoffMs / 1_000} s`);
      await pause(backoffMs, undefined, { signal: stopping.signal }).catch(() => undefined);
      if (stopping.signal.aborted) return;
      backoffMs = Math.min(backoffMs * 2, longestBackoffMs);
      current = start();
    }
  };
  const done = keepRunning(start());

  const end = async (): Promise<void> => {
    for (const { signal, patienceMs } of ladder) {
      if (running === undefined) break;
      running.child.kill('SIGCONT');
      running.child.kill(signal);
      const timer = new AbortController();
      const isDone = await Promise.race([done.then(() => true), pause(patienceMs, false, { signal: timer.signal }).catch(() => false)]);
      timer.abort();
      if (isDone) break;
      log(`still there ${patienceMs / 1_000} s after ${signal}`);
    }
    await done;
  };
  let stopped: Promise<void> | undefined;
  return {
    name,
    pid: () => running?.child.pid,
    countRestarts: () => restarts,
    kill: (signal) => void running?.child.kill(signal),
    stop: () => {
      stopping.abort();
      return (stopped ??= end());
    },
  };
}

function spawnChild({ command = process.execPath, args, env, cwd, log }: SupervisedPlan): { child: ChildProcess; ended: Promise<string> } {
  const child = spawn(command, [...args], { cwd, env: { ...env }, stdio: ['ignore', 'pipe', 'pipe'], detached: true, windowsHide: true });
  for (const stream of [child.stdout, child.stderr]) createInterface({ input: stream }).on('line', log);
  const ended = new Promise<string>((resolve) => {
    child.once('error', (error) => resolve(`could not be run: ${error.message}`));
    child.once('exit', (code, signal) => resolve(signal === null ? `exited with code ${code}` : `was ended by ${signal}`));
  });
  return { child, ended };
}
