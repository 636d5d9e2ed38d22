/**
 * n8n in queue mode as its user installed it: a main process and one worker, 10 executions at a time, on a database of its own and the same
 * Valkey; a workflow of a webhook and ten Set nodes. Settings as shipped, save for what calls home, with and without saving the
 * progress of every node. Its licence lets nobody ship it, so nothing of it is here: only how it is asked.
 *
 * A run counts as ended when its execution is stored as a success. What sends the webhooks is this process and is not counted.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { dropDatabase, ensureDatabase } from '@onward/stack/ensure-database';
import { freePort } from '@onward/stack/free-port';
import pg from 'pg';
import { request } from 'undici';
import { emptyValkey } from './empty-valkey.js';
import { inFlight } from './in-flight.js';
import { measure } from './process-meter.js';
import type { Servers } from './servers.js';
import { endLater } from './started.js';
import { until } from './until.js';

export type N8nPlan = { servers: Servers; node: string; path: string; folder: string; savesProgress: boolean; runs: number; say(line: string): void };
export type N8nBurst = { stepsPerSecond: number; cpuPerThousandSteps: number; peakBytes: number };

const DATABASE = 'bench_n8n';
const WORKFLOW = 'onwardbench0001';
const PATH = 'bench';
const STEPS = 10;
const CONCURRENCY = 10;
const WARM_UP_RUNS = 100;
const WEBHOOKS_IN_FLIGHT = 50;
const READY = { withinMs: 180_000, everyMs: 500 };
const STOP_WITHIN_MS = 10_000;
const KEPT_CHARACTERS = 4_000;

/** The version of the n8n under this folder. Throws when there is none. */
export function readN8nVersion(folder: string): string {
  const manifest = join(folder, 'node_modules/n8n/package.json');
  if (!existsSync(manifest)) throw new Error(`There is no n8n under ${folder}: it is installed there by "npm i n8n@2"`);
  return (JSON.parse(readFileSync(manifest, 'utf8')) as { version: string }).version;
}

/** One burst on fresh processes and a fresh database. */
export async function burstOnN8n({ servers, node, path, folder, savesProgress, runs, say }: N8nPlan): Promise<N8nBurst> {
  const program = join(folder, 'node_modules/n8n/bin/n8n');
  await dropDatabase(servers.postgresUrl, DATABASE);
  const databaseUrl = await ensureDatabase(servers.postgresUrl, DATABASE);
  const home = mkdtempSync(join(tmpdir(), 'onward-bench-n8n-'));
  const [port, health, mainBroker, workerBroker] = await Promise.all([freePort(), freePort(), freePort(), freePort()]);
  const env = { PATH: path, ...settingsOf(databaseUrl, servers.valkeyUrl, { home, port, savesProgress }) };
  const started: ChildProcess[] = [];
  let said = '';
  let isClosed = false;
  const start = (words: readonly string[], more: Readonly<Record<string, string>> = {}): ChildProcess => {
    if (isClosed) throw new Error('Interrupted');
    const child = spawn(node, [program, ...words], { cwd: home, env: { ...env, ...more }, stdio: ['ignore', 'pipe', 'pipe'], detached: true });
    for (const stream of [child.stdout, child.stderr]) stream.on('data', (text: Buffer) => (said = (said + text.toString()).slice(-KEPT_CHARACTERS)));
    started.push(child);
    return child;
  };
  const pool = new pg.Pool({ connectionString: databaseUrl, max: 1 });
  pool.on('error', () => undefined);
  const close = endLater(async () => {
    isClosed = true;
    await Promise.all(started.map(end));
    await pool.end();
    await dropDatabase(servers.postgresUrl, DATABASE);
    rmSync(home, { recursive: true, force: true });
  });
  try {
    await emptyValkey(servers.valkeyUrl);
    const file = join(home, 'workflow.json');
    writeFileSync(file, JSON.stringify([workflow()]));
    await finish(start(['import:workflow', `--input=${file}`]));
    await finish(start(['publish:workflow', `--id=${WORKFLOW}`]));
    const main = start(['start'], { N8N_RUNNERS_BROKER_PORT: String(mainBroker) });
    await until('n8n is ready', () => isHealthy(port, main), READY);
    const listen = { QUEUE_HEALTH_CHECK_ACTIVE: 'true', QUEUE_HEALTH_CHECK_PORT: String(health), N8N_WORKER_SERVER_ADDRESS: '127.0.0.1' };
    const worker = start(['worker', `--concurrency=${CONCURRENCY}`], { N8N_RUNNERS_BROKER_PORT: String(workerBroker), ...listen });
    await until('its worker is ready', () => isHealthy(health, worker), READY);
    await until('its webhook is there', async () => (await send(port)) === 200, READY);
    const countEnded = async () =>
      Number((await pool.query<{ count: string }>(`SELECT count(*) AS count FROM execution_entity WHERE status = 'success'`)).rows[0]?.count ?? 0);
    let ended = 1;
    const run = async (count: number): Promise<void> => {
      await inFlight(count, WEBHOOKS_IN_FLIGHT, async () => {
        const status = await send(port);
        if (status !== 200) throw new Error(`The webhook answered ${status}`);
      });
      ended += count;
      await until('all its runs have ended', async () => (await countEnded()) === ended);
    };
    await until('its first run has ended', async () => (await countEnded()) === ended, READY);
    await run(WARM_UP_RUNS);
    const roots = { n8n: [main.pid ?? 0, worker.pid ?? 0], postgres: [servers.postgresPid], valkey: [servers.valkeyPid] };
    const { seconds, cpuSecondsOfAll, peakBytes } = await measure({ roots, memoryOf: ['n8n'] }, () => run(runs));
    const steps = runs * STEPS;
    return { stepsPerSecond: steps / seconds, cpuPerThousandSteps: (cpuSecondsOfAll / steps) * 1_000, peakBytes };
  } catch (error) {
    say(`The last n8n said:\n${said}`);
    throw error;
  } finally {
    await close();
  }
}

function workflow() {
  const idOf = (nth: number) => `00000000-0000-4000-8000-0000000000${String(nth).padStart(2, '0')}`;
  const webhook = {
    id: idOf(0),
    name: 'W',
    type: 'n8n-nodes-base.webhook',
    typeVersion: 2,
    position: [0, 0],
    webhookId: '00000000-0000-4000-8000-00000000beef',
    parameters: { httpMethod: 'POST', path: PATH, responseMode: 'onReceived', options: {} },
  };
  const steps = Array.from({ length: STEPS }, (_, index) => ({
    id: idOf(index + 1),
    name: `S${index + 1}`,
    type: 'n8n-nodes-base.set',
    typeVersion: 3.4,
    position: [200 * (index + 1), 0],
    parameters: {
      assignments: { assignments: [{ id: `a${index}`, name: `s${index % 3}`, value: 'value', type: 'string' }] },
      includeOtherFields: true,
      options: {},
    },
  }));
  const nodes = [webhook, ...steps];
  const to = (name: string) => ({ main: [[{ node: name, type: 'main', index: 0 }]] });
  const connections = Object.fromEntries(steps.map(({ name }, index) => [nodes[index]?.name ?? '', to(name)]));
  return { id: WORKFLOW, name: PATH, active: false, nodes, connections, settings: { executionOrder: 'v1' } };
}

function settingsOf(databaseUrl: string, valkeyUrl: string, { home, port, savesProgress }: { home: string; port: number; savesProgress: boolean }) {
  const [database, valkey] = [new URL(databaseUrl), new URL(valkeyUrl)];
  return {
    NODE_ENV: 'production',
    N8N_USER_FOLDER: home,
    N8N_ENCRYPTION_KEY: 'of-this-measuring-only',
    DB_TYPE: 'postgresdb',
    DB_POSTGRESDB_HOST: database.hostname,
    DB_POSTGRESDB_PORT: database.port,
    DB_POSTGRESDB_DATABASE: DATABASE,
    DB_POSTGRESDB_USER: decodeURIComponent(database.username),
    DB_POSTGRESDB_PASSWORD: decodeURIComponent(database.password),
    EXECUTIONS_MODE: 'queue',
    QUEUE_BULL_REDIS_HOST: valkey.hostname,
    QUEUE_BULL_REDIS_PORT: valkey.port,
    ...(valkey.username === '' ? {} : { QUEUE_BULL_REDIS_USERNAME: decodeURIComponent(valkey.username) }),
    ...(valkey.password === '' ? {} : { QUEUE_BULL_REDIS_PASSWORD: decodeURIComponent(valkey.password) }),
    EXECUTIONS_DATA_SAVE_ON_PROGRESS: String(savesProgress),
    N8N_PORT: String(port),
    N8N_HOST: '127.0.0.1',
    N8N_LISTEN_ADDRESS: '127.0.0.1',
    N8N_RUNNERS_BROKER_LISTEN_ADDRESS: '127.0.0.1',
    N8N_LOG_LEVEL: 'warn',
    // What calls home or asks people.
    N8N_DIAGNOSTICS_ENABLED: 'false',
    N8N_VERSION_NOTIFICATIONS_ENABLED: 'false',
    N8N_TEMPLATES_ENABLED: 'false',
    N8N_PERSONALIZATION_ENABLED: 'false',
    N8N_COMMUNITY_PACKAGES_ENABLED: 'false',
    GENERIC_TIMEZONE: 'UTC',
  };
}

async function send(port: number): Promise<number> {
  const { statusCode, body } = await request(`http://127.0.0.1:${port}/webhook/${PATH}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: '{"hello":"world"}',
  });
  await body.dump();
  return statusCode;
}

async function isHealthy(port: number, { exitCode }: ChildProcess): Promise<boolean> {
  if (exitCode !== null) throw new Error(`n8n ended with ${exitCode}`);
  try {
    const { statusCode, body } = await request(`http://127.0.0.1:${port}/healthz`);
    await body.dump();
    return statusCode === 200;
  } catch {
    return false; // does not listen yet
  }
}

async function finish(child: ChildProcess): Promise<void> {
  const code = await new Promise<number | null>((resolve) => child.once('exit', resolve));
  if (code !== 0) throw new Error(`n8n ${child.spawnargs[2]} ended with ${code}`);
}

async function end(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const ended = new Promise((resolve) => child.once('exit', resolve));
  child.kill('SIGTERM');
  const timer = setTimeout(() => child.kill('SIGKILL'), STOP_WITHIN_MS);
  await ended;
  clearTimeout(timer);
}
