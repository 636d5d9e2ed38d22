/**
 * `pnpm bench`: measures Onward and its peers on the same work on this machine, prints a table, keeps it in .onward/bench/latest.json, and
 * ends with 0 when every must that was run is met. How it is measured and what it may be used for stands in docs/performance.md.
 */
import { mkdirSync, writeFileSync } from 'node:fs';
import { cpus } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { failed, judge } from './judge.js';
import { installPeers } from './peers.js';
import { isAsked, type Plan, readArguments } from './read-arguments.js';
import { startServers } from './servers.js';
import { readSettings } from './settings.js';
import { endAll } from './started.js';
import type { Bench, Group, Row, Sample } from './target.js';
import { backlog } from './targets/backlog.js';
import { bursts } from './targets/bursts.js';
import { costGrowth } from './targets/cost-growth.js';
import { forward } from './targets/forward.js';
import { growth } from './targets/growth.js';
import { intake } from './targets/intake.js';
import { kills } from './targets/kills.js';
import { triggerLatency, waitLateness } from './targets/latency.js';
import { limits } from './targets/limits.js';
import { mixed } from './targets/mixed.js';
import { n8n } from './targets/n8n.js';
import { workers } from './targets/workers.js';
import { toRecord, writeTable } from './write-table.js';

const GROUPS: readonly Group[] = [bursts, n8n, triggerLatency, workers, forward, growth, backlog, waitLateness, intake, kills, limits, ...costGrowth, mixed];
const LETTERS = 'PLGM';
const RUNS = 2_000;
const QUICK_RUNS = 300;
const OUTPUT = fileURLToPath(new URL('../../../.onward/bench', import.meta.url));

const startedAt = performance.now();
const say = (line: string): void => void process.stderr.write(`${((performance.now() - startedAt) / 1_000).toFixed(0).padStart(5)} s  ${line}\n`);

const rows: Row[] = [];
/** Those of the group that is being measured, as far as it has come. */
let underWay: readonly Row[] = [];
let about = '';
let isInterrupted = false;
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => void interrupt());

try {
  process.exitCode = (await bench(readArguments(process.argv.slice(2)))) ? 0 : 1;
} catch (error) {
  process.stderr.write(`${error instanceof Error ? (error.stack ?? error.message) : String(error)}\n`);
  process.exitCode = 1;
}
// What ends an interrupted measuring is its interruption.
if (!isInterrupted) process.exit();

async function bench({ only, isQuick, repetitions, n8n: folder }: Plan): Promise<boolean> {
  const { node, versions } = installPeers(say);
  const servers = await startServers();
  const runs = isQuick ? QUICK_RUNS : RUNS;
  const of = Object.entries({ Postgres: servers.versions.postgres, Valkey: servers.versions.valkey, ...versions });
  about = `${cpus().length} CPUs (${cpus()[0]?.model ?? 'unknown'}), ${of.map(([name, version]) => `${name} ${version}`).join(', ')}; ${repetitions} repetitions of ${runs} runs; medians [min..max]`;
  try {
    const settings = readSettings();
    const context = { servers, node, ...settings, n8n: folder ?? settings.n8n, isQuick, repetitions, runs, say };
    for (const group of GROUPS) {
      const found = await runGroup(group, only, context);
      if (isInterrupted) return false;
      rows.push(...found);
      underWay = [];
    }
  } finally {
    await servers.stop();
  }
  report();
  return rows.every(({ verdict }) => verdict !== 'fail');
}

async function runGroup(group: Group, only: readonly string[], context: Omit<Bench, 'keep'>): Promise<Row[]> {
  const targets = group.targets.filter(({ id }) => isAsked(only, id));
  if (targets.length === 0) return [];
  const judgeAll = (samples: readonly Sample[]): Row[] =>
    targets.map((target) =>
      judge(
        target,
        samples.find(({ id }) => id === target.id),
      ),
    );
  const keep = (samples: readonly Sample[]): void => {
    underWay = judgeAll(samples);
  };
  try {
    return judgeAll(await group.measure({ ...context, keep }, new Set(targets.map(({ id }) => id))));
  } catch (error) {
    if (!isInterrupted) context.say(error instanceof Error ? (error.stack ?? error.message) : String(error));
    return targets.map((target) => failed(target, error));
  }
}

/** What was measured so far is told first; ending may take half a minute, and a second signal does not hurry it. */
async function interrupt(): Promise<void> {
  if (isInterrupted) return;
  isInterrupted = true;
  report();
  say('Interrupted: ending what was started …');
  await endAll();
  process.exit(130);
}

function report(): void {
  const all = [...rows, ...underWay].sort((a, b) => placeOf(a.target.id) - placeOf(b.target.id));
  if (all.length === 0) return;
  process.stdout.write(`${writeTable(all)}\n\n${about}\n`);
  mkdirSync(OUTPUT, { recursive: true });
  writeFileSync(join(OUTPUT, 'latest.json'), `${JSON.stringify(all.map(toRecord), null, 2)}\n`);
}

/** Targets first, then what lies beneath and around them, each by its number. */
function placeOf(id: string): number {
  return LETTERS.indexOf(id.charAt(0)) * 100 + Number(id.slice(1).split(' ', 1)[0]);
}
