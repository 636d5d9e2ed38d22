/** Runs a program in the checkout and answers what it printed. One that cannot be started, or that is ended by a signal, throws. */
import { spawn } from 'node:child_process';
import { join } from 'node:path';
import { cleanEnvironment } from '../set-up.mjs';

const IS_WINDOWS = process.platform === 'win32';

/** `tool` is a name in node_modules/.bin. */
export function runTool(root, tool, args) {
  return run(root, join(root, 'node_modules', '.bin', IS_WINDOWS ? `${tool}.cmd` : tool), args);
}

export function run(root, program, args) {
  return new Promise((resolve, reject) => {
    const child = spawn(program, args, {
      cwd: root,
      env: { ...cleanEnvironment(), NO_COLOR: '1', FORCE_COLOR: undefined, CI: process.env.CI ?? 'true' },
      stdio: ['ignore', 'pipe', 'pipe'],
      shell: IS_WINDOWS,
    });
    const printed = { stdout: '', stderr: '' };
    for (const name of ['stdout', 'stderr']) {
      child[name].setEncoding('utf8').on('data', (text) => {
        printed[name] += text;
      });
    }
    child.once('error', reject);
    child.once('close', (code, signal) => {
      if (code === null) reject(new Error(`${program} was ended by ${signal}`));
      else resolve({ code, ...printed });
    });
  });
}
