/**
 * `pnpm prove`: the long runs of the fault suite, packages/proving/prove: sets up like `npm test`, runs them one after another, and ends with the
 * same plain line that says how many passed and failed.
 *
 *   pnpm prove            all of them; hours
 *   pnpm prove kills      only the files whose name holds the word
 */
import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { readCounts } from './read-counts.mjs';
import { cleanEnvironment, ROOT, runScript, setUp } from './set-up.mjs';

await runScript(async () => {
  setUp();
  const cwd = join(ROOT, 'packages/proving');
  const reports = mkdtempSync(join(tmpdir(), 'onward-reports-'));
  const report = join(reports, 'prove.json');
  const vitest = join(cwd, 'node_modules/vitest/vitest.mjs');
  const args = [vitest, 'run', '--config', 'prove/vitest.config.ts', '--reporter=default', '--reporter=json', `--outputFile.json=${report}`];
  const { status } = spawnSync(process.execPath, [...args, ...process.argv.slice(2)], {
    cwd,
    env: cleanEnvironment(),
    stdio: ['ignore', 'inherit', 'inherit'],
  });
  const { passed, failed, skipped } = readCounts(report);
  rmSync(reports, { recursive: true, force: true });
  const allFailed = status !== 0 && failed === 0 ? 1 : failed;
  process.stdout.write(`\n${passed} passed, ${allFailed} failed${skipped === 0 ? '' : `, ${skipped} skipped`}\n`);
  return allFailed === 0 ? 0 : 1;
});
process.exit();
