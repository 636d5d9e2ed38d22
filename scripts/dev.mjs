/**
 * The `dev` script of every process package: compiles on each change and restarts `dist/main.js` when it compiled cleanly.
 *
 * Settings that the environment does not have are taken from `.onward/instance.json` and `.onward/secrets.json`, which
 * `pnpm stack:dev` writes; as long as those are missing the process is not started, but waited for. The running program
 * gets SIGTERM and ends before the next one starts. Runs in the package's folder.
 */
import { spawn } from 'node:child_process';
import { createRequire } from 'node:module';
import { basename, dirname, join } from 'node:path';
import { readInstanceSettings } from './instance-settings.mjs';

const LOOK_EVERY_MS = 500;
const say = (line) => process.stdout.write(`[dev] ${line}\n`);

/** The stack writes the settings, so it cannot wait for them. */
const needsSettings = basename(process.cwd()) !== 'stack';

let program;
let isStopping = false;
let isRestartWanted = false;
let waitingTimer;

const typescript = dirname(createRequire(join(process.cwd(), 'package.json')).resolve('typescript/package.json'));
const compiler = spawn(process.execPath, [join(typescript, 'bin/tsc'), '-p', 'tsconfig.build.json', '--watch', '--preserveWatchOutput'], {
  stdio: ['ignore', 'pipe', 'inherit'],
});
compiler.stdout.setEncoding('utf8').on('data', (text) => {
  process.stdout.write(text);
  if (text.includes('Found 0 errors')) restart();
});
compiler.once('exit', (code) => {
  if (!isStopping) stop(code ?? 1);
});
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.on(signal, () => stop(0));

function restart() {
  if (isStopping) return;
  if (program === undefined) return start();
  isRestartWanted = true;
  program.kill('SIGTERM');
}

function start() {
  clearTimeout(waitingTimer);
  const settings = needsSettings ? readInstanceSettings() : {};
  if (settings === undefined) {
    if (waitingTimer === undefined) say('waiting for `npx pnpm@12.4.2 stack:dev` in another terminal');
    waitingTimer = setTimeout(start, LOOK_EVERY_MS);
    return;
  }
  waitingTimer = undefined;
  isRestartWanted = false;
  program = spawn(process.execPath, ['--enable-source-maps', 'dist/main.js'], { stdio: 'inherit', env: { ...settings, ...withoutEmpty(process.env) } });
  program.once('exit', (code, signal) => {
    program = undefined;
    if (isStopping) process.exit(code ?? 0);
    if (isRestartWanted) start();
    else say(`ended (${signal ?? code}); the next change starts it again`);
  });
}

/** Ends the program, then the compiler and this; a program that is told twice has its own way of hurrying. */
function stop(code) {
  isStopping = true;
  clearTimeout(waitingTimer);
  compiler.kill();
  if (program === undefined) process.exit(code);
  program.kill('SIGTERM');
}

function withoutEmpty(environment) {
  return Object.fromEntries(Object.entries(environment).filter(([, value]) => value !== ''));
}
