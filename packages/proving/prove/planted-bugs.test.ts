import { spawnSync } from 'node:child_process';
import { cpSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, sep } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { PLANTED_BUGS } from './planted-bugs.js';

/** In a copy of the checkout each named test is green; with its bug planted it is red; the copy is mended again. */
const ROOT = fileURLToPath(new URL('../../..', import.meta.url)).replace(/[/\\]$/, '');
const LEFT_OUT = ['.git', '.onward', 'node_modules', 'samples'].map((name) => join(ROOT, name));

let copy: string;
beforeAll(() => {
  copy = mkdtempSync(join(tmpdir(), 'onward-planted-'));
  cpSync(ROOT, copy, { recursive: true, verbatimSymlinks: true, filter: (path) => !LEFT_OUT.includes(path) });
  symlinkSync(join(ROOT, 'node_modules'), join(copy, 'node_modules'));
});
afterAll(() => rmSync(copy, { recursive: true, force: true }));

for (const rule of [...new Set(PLANTED_BUGS.map((bug) => bug.rule))]) {
  describe(`rule ${rule}`, () => {
    test.each(PLANTED_BUGS.filter((bug) => bug.rule === rule))('its test is red when $what', { timeout: 900_000 }, (bug) => {
      const path = join(copy, bug.file);
      const well = readFileSync(path, 'utf8');
      expect(well.split(bug.from)).toHaveLength(2);
      expect(run(bug)).toMatchObject({ failed: 0 });
      writeFileSync(
        path,
        well.replace(bug.from, () => bug.to),
      );
      build(bug.file);
      try {
        expect(run(bug).failed).toBeGreaterThan(0);
      } finally {
        writeFileSync(path, well);
        build(bug.file);
      }
    });
  });
}

/** Other packages read what is built; the backend's own tests read its source. */
function build(file: string): void {
  const folder = file.split('/').slice(0, 2).join(sep);
  const built = spawnSync(process.execPath, [join(copy, folder, 'node_modules/typescript/bin/tsc'), '-p', 'tsconfig.build.json'], { cwd: join(copy, folder) });
  if (built.status !== 0) throw new Error(`${folder} does not build:\n${String(built.stdout)}${String(built.stderr)}`);
}

/** How many tests of that title passed and failed. Throws when none was run: then nothing was asked. */
function run({ folder, test: file, title }: (typeof PLANTED_BUGS)[number]): { passed: number; failed: number } {
  const report = join(copy, 'report.json');
  rmSync(report, { force: true });
  const cwd = join(copy, folder);
  const { stdout, stderr } = spawnSync(
    process.execPath,
    ['node_modules/vitest/vitest.mjs', 'run', file, '-t', title.replace(/[.*+?^${}()|[\]\\]/g, '\\$&'), '--reporter=json', `--outputFile=${report}`],
    { cwd },
  );
  const { numPassedTests: passed, numFailedTests: failed } = JSON.parse(readFileSync(report, 'utf8')) as { numPassedTests: number; numFailedTests: number };
  if (passed + failed === 0) throw new Error(`No test was run:\n${String(stdout)}${String(stderr)}`);
  return { passed, failed };
}
