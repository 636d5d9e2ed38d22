/**
 * `pnpm prove`: the long runs of the fault suite, packages/proving/prove: sets up like `npm test`, runs them one after another, and ends with the
 * same plain line that says how many passed and failed.
 *
 *   pnpm prove                    all of them; hours
 *   pnpm prove kills              only the files whose name holds the word
 *   pnpm prove seeds --seeds 25   what is drawn from a seed is run with so many, drawn anew; 10 unless given
 *   pnpm prove seeds --seed 123   with that seed alone, as a failed test names it
 */
import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { readCounts } from './read-counts.mjs';
import { cleanEnvironment, ROOT, runScript, SetUpFailed, setUp } from './set-up.mjs';

await runScript(async () => {
  const { seeds, seed, files } = readArguments();
  setUp();
  const cwd = join(ROOT, 'packages/proving');
  const reports = mkdtempSync(join(tmpdir(), 'onward-reports-'));
  const report = join(reports, 'prove.json');
  const vitest = join(cwd, 'node_modules/vitest/vitest.mjs');
  const args = [vitest, 'run', '--config', 'prove/vitest.config.ts', '--reporter=default', '--reporter=json', `--outputFile.json=${report}`];
  const { status } = spawnSync(process.execPath, [...args, ...files], {
    cwd,
    env: { ...cleanEnvironment(), ...(seeds && { ONWARD_SEEDS: seeds }), ...(seed && { ONWARD_SEED: seed }) },
    stdio: ['ignore', 'inherit', 'inherit'],
  });
  const { passed, failed, skipped } = readCounts(report);
  rmSync(reports, { recursive: true, force: true });
  const allFailed = status !== 0 && failed === 0 ? 1 : failed;
  process.stdout.write(`\n${passed} passed, ${allFailed} failed${skipped === 0 ? '' : `, ${skipped} skipped`}\n`);
  return allFailed === 0 ? 0 : 1;
});
process.exit();

/** Throws a SetUpFailed for an option it does not know and for a number that is none. */
function readArguments() {
  let read;
  try {
    read = parseArgs({ options: { seeds: { type: 'string' }, seed: { type: 'string' } }, allowPositionals: true });
  } catch (error) {
    throw new SetUpFailed(error.message);
  }
  const { values, positionals } = read;
  for (const [name, value] of Object.entries(values)) {
    if (!/^[1-9]\d{0,9}$/.test(value)) throw new SetUpFailed(`--${name} takes a whole number from 1 on, not "${value}"`);
  }
  return { ...values, files: positionals };
}
