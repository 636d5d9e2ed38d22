/**
 * `pnpm bench`: measures Onward and its peers, packages/bench: sets up like `npm test`, builds everything, and runs it. The peers are
 * installed by the first run, outside the workspace. Linux on x64 only, since it reads /proc.
 *
 *   pnpm bench                     everything; over an hour
 *   pnpm bench --only P1,P5        only these
 *   pnpm bench --quick             small bursts, once
 *   pnpm bench --reps 5            repetitions, three unless said
 */
import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { cleanEnvironment, ROOT, runScript, setUp } from './set-up.mjs';

await runScript(async () => {
  setUp((line) => process.stderr.write(`${line}\n`));
  const { status } = spawnSync(process.execPath, [join(ROOT, 'packages/bench/dist/main.js'), ...process.argv.slice(2)], {
    cwd: ROOT,
    env: cleanEnvironment(),
    stdio: ['ignore', 'inherit', 'inherit'],
  });
  return status ?? 1;
});
process.exit();
