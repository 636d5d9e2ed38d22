/**
 * Makes a fresh clone ready with nothing but Node and npm: right Node, packages installed, everything built.
 *
 * `npm start` and `npm test` begin with it; `node scripts/set-up.mjs` runs it alone. Installs only when the lock file has
 * changed since the last time, offline when npm's cache allows. Uses no dependency, since there are none before it ran.
 */
import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

export const ROOT = fileURLToPath(new URL('..', import.meta.url)).replace(/\/$/, '');
const PNPM = 'pnpm@12.4.2';
const OLDEST_NODE = [20, 19];

/** Throws a SetUpFailed with a sentence for people. `say` hears what is being done. */
export function setUp(say = (line) => process.stdout.write(`${line}\n`)) {
  checkNode();
  const lock = readFileSync(join(ROOT, 'pnpm-lock.yaml'));
  const fingerprint = createHash('sha256').update(lock).digest('hex');
  const marker = join(ROOT, 'node_modules', '.onward-installed');
  const isInstalled = existsSync(marker) && readFileSync(marker, 'utf8') === fingerprint && existsSync(join(ROOT, 'node_modules/turbo'));
  if (!isInstalled) {
    say('Installing packages …');
    runPnpm(['install', '--frozen-lockfile', '--prod=false'], 'The packages could not be installed');
    writeFileSync(marker, fingerprint);
  }
  say('Building …');
  runPnpm(['exec', 'turbo', 'run', 'build', '--output-logs=errors-only', '--no-update-notifier'], 'The build failed');
}

export class SetUpFailed extends Error {}

function checkNode() {
  const [major = 0, minor = 0] = process.versions.node.split('.').map(Number);
  const [oldestMajor = 0, oldestMinor = 0] = OLDEST_NODE;
  if (major < oldestMajor || (major === oldestMajor && minor < oldestMinor)) {
    throw new SetUpFailed(`Node ${OLDEST_NODE.join('.')} or newer is needed, this is ${process.version}.`);
  }
}

/**
 * The environment without what `npm start` itself put there: its npm_config_* would steer the npx and pnpm called here.
 * The cache folder stays, and telemetry of the tools is off.
 */
export function cleanEnvironment() {
  const kept = Object.entries(process.env).filter(([name]) => !/^npm_/i.test(name) || name.toLowerCase() === 'npm_config_cache');
  return { ...Object.fromEntries(kept), TURBO_TELEMETRY_DISABLED: '1', DO_NOT_TRACK: '1' };
}

/**
 * pnpm is fetched by npx, from its cache when it is there: without `--prefer-offline` a missing network costs a minute.
 * What it says is shown only when it fails.
 */
function runPnpm(args, whatFailed) {
  const { status, error, stdout, stderr } = spawnSync('npx', ['--yes', '--prefer-offline', PNPM, ...args], {
    cwd: ROOT,
    env: { ...cleanEnvironment(), CI: process.env.CI ?? 'true' },
    stdio: ['ignore', 'pipe', 'pipe'],
    encoding: 'utf8',
    maxBuffer: 64 * 1024 * 1024,
    shell: process.platform === 'win32',
  });
  if (error !== undefined) throw new SetUpFailed(`${whatFailed}: npx could not be run (${error.message})`);
  if (status === 0) return;
  process.stdout.write(stdout);
  process.stderr.write(stderr);
  throw new SetUpFailed(`${whatFailed}; what it said stands above.`);
}

/** Runs a script's body: a SetUpFailed is a sentence and exit code 1, anything else keeps its stack trace. */
export async function runScript(body) {
  try {
    process.exitCode = await body();
  } catch (error) {
    if (!(error instanceof SetUpFailed)) throw error;
    process.stderr.write(`${error.message}\n`);
    process.exitCode = 1;
  }
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  await runScript(async () => {
    setUp();
    return 0;
  });
}
