/**
 * `npm test`: sets up, starts one PostgreSQL and one Valkey, runs the tests of every package one after another, and ends
 * with the names of the tests that failed and one plain line that says how many passed and failed.
 *
 *   npm test                         everything
 *   npm test -- packages/egress      only these packages, by folder
 *
 * A package whose run fails without a failed test (a file that cannot be loaded, a leak, a crash) counts as one failure.
 * ONWARD_TEST_POSTGRES_URL and ONWARD_TEST_VALKEY_URL name servers to use instead.
 */
import { spawn } from 'node:child_process';
import { existsSync, mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { readCounts } from './read-counts.mjs';
import { cleanEnvironment, ROOT, runScript, setUp } from './set-up.mjs';

const PACKAGE_PATIENCE_MS = 30 * 60 * 1_000;
const children = new Set();

await runScript(async () => {
  setUp();
  const wanted = process.argv.slice(2).map((folder) => folder.replace(/\/$/, ''));
  const packages = findTestedPackages().filter((folder) => wanted.length === 0 || wanted.includes(folder));
  const { startTestServices } = await import('../packages/stack/dist/test-services.js');
  const services = await startTestServices({
    postgresUrl: process.env.ONWARD_TEST_POSTGRES_URL || undefined,
    valkeyUrl: process.env.ONWARD_TEST_VALKEY_URL || undefined,
  });
  const reports = mkdtempSync(join(tmpdir(), 'onward-reports-'));
  const stop = async () => {
    await services.stop();
    rmSync(reports, { recursive: true, force: true });
  };
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.on(signal, () => void interrupt(stop));

  const total = { passed: 0, failed: 0, skipped: 0 };
  const failures = [];
  try {
    for (const folder of packages) {
      process.stdout.write(`\n── ${folder}\n`);
      const counts = await testPackage(folder, join(reports, `${folder.replace('/', '-')}.json`), services);
      for (const name of Object.keys(total)) total[name] += counts[name];
      failures.push(...counts.failures.map((failure) => `${folder} ${failure}`));
    }
  } finally {
    await stop();
  }
  if (packages.length === 0) total.failed++; // nothing was tested, which is no success
  process.stdout.write(failures.map((failure) => `\n✗ ${failure}`).join(''));
  process.stdout.write(`\n${total.passed} passed, ${total.failed} failed${total.skipped === 0 ? '' : `, ${total.skipped} skipped`}\n`);
  return total.failed === 0 ? 0 : 1;
});
process.exit();

/** Folders, relative to the root, of the packages that have test files, in alphabetical order. */
function findTestedPackages() {
  const folders = ['apps', 'packages'].flatMap((group) => readdirSync(join(ROOT, group)).map((name) => `${group}/${name}`));
  return folders.filter((folder) => existsSync(join(ROOT, folder, 'package.json')) && hasTests(join(ROOT, folder))).sort();
}

function hasTests(folder) {
  return ['test', 'src'].some((part) => {
    const inside = join(folder, part);
    return existsSync(inside) && readdirSync(inside, { recursive: true }).some((name) => /\.test\.tsx?$/.test(name));
  });
}

async function testPackage(folder, reportFile, { postgresUrl, valkeyUrl }) {
  const cwd = join(ROOT, folder);
  const vitest = join(cwd, 'node_modules/vitest/vitest.mjs');
  if (!existsSync(vitest)) {
    return { passed: 0, failed: 1, skipped: 0, failures: ['has tests but no vitest'] };
  }
  const env = { ...cleanEnvironment(), ONWARD_TEST_POSTGRES_URL: postgresUrl, ONWARD_TEST_VALKEY_URL: valkeyUrl };
  const args = [vitest, 'run', '--reporter=default', '--reporter=json', `--outputFile.json=${reportFile}`];
  const code = await run(args, cwd, env);
  const counts = readCounts(reportFile);
  if (code !== 0 && counts.failed === 0) {
    counts.failed = 1;
    counts.failures.push(`ended with ${code === null ? 'a signal' : `code ${code}`}, and no test failed`);
  }
  return counts;
}

/** Resolves with the exit code; null when a signal or our patience ended it. */
function run(args, cwd, env) {
  return new Promise((resolve) => {
    const child = spawn(process.execPath, args, { cwd, env, stdio: ['ignore', 'inherit', 'inherit'] });
    children.add(child);
    const timer = setTimeout(() => child.kill('SIGKILL'), PACKAGE_PATIENCE_MS);
    child.once('error', () => resolve(null));
    child.once('close', (code) => {
      clearTimeout(timer);
      children.delete(child);
      resolve(code);
    });
  });
}

async function interrupt(stop) {
  for (const child of children) child.kill('SIGTERM');
  await stop();
  process.exit(130);
}
