/**
 * `pnpm bench`: measures Onward and its peers, packages/bench: sets up like `npm test`, builds everything, and runs it. The peers are
 * installed by the first run, outside the workspace. Linux on x64 only, since it reads /proc.
 *
 *   pnpm bench                     everything; hours
 *   pnpm bench --only P1,P5        only these; `limits` (L1–L6), `growth` (G1–G7) and `mixed` (M1–M5) are words for theirs
 *   pnpm bench --quick             small bursts, once
 *   pnpm bench --reps 5            repetitions, three unless said
 *   pnpm bench --n8n FOLDER        P2 as well, against the n8n that is installed there
 *
 * Ctrl+C ends everything it started and tells what was measured so far.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { cleanEnvironment, ROOT, runScript, setUp } from './set-up.mjs';

await runScript(async () => {
  setUp((line) => process.stderr.write(`${line}\n`));
  const child = spawn(process.execPath, [join(ROOT, 'packages/bench/dist/main.js'), ...process.argv.slice(2)], {
    cwd: ROOT,
    env: cleanEnvironment(),
    stdio: ['ignore', 'inherit', 'inherit'],
  });
  // A Ctrl+C reaches the child by itself; a signal to this process alone is passed on. It hears only the first.
  for (const signal of ['SIGINT', 'SIGTERM']) process.on(signal, () => child.kill(signal));
  const [code] = await once(child, 'exit');
  return code ?? 1;
});
process.exit();
