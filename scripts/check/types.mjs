/**
 * Types: builds every package and runs `tsc --noEmit` in it (its tests included), through turbo, which skips what has not changed. The
 * checks that work on what is built (schema-drift, openapi) rely on this one having run before.
 */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { run } from './run-tool.mjs';
import { findPackages } from './workspace.mjs';

const ERROR_LINE = /^(@onward\/[^:]+):(?:build|typecheck): (.+?)\((\d+),\d+\): error (TS\d+): (.*)$/;

export async function checkTypes(root) {
  const packages = findPackages(root);
  const untyped = packages.filter(({ manifest }) => manifest.scripts?.typecheck === undefined);
  // turbo looks for pnpm on the PATH, and pnpm puts itself there for what it starts; asked for as set-up.mjs does.
  const { packageManager } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));
  const { code, stdout, stderr } = await run(root, 'npx', [
    '--yes',
    '--prefer-offline',
    packageManager,
    'exec',
    'turbo',
    'run',
    'build',
    'typecheck',
    '--continue',
    '--output-logs=errors-only',
    '--log-prefix=task',
    '--log-order=grouped',
    '--no-color',
    '--no-update-notifier',
  ]);
  const found = new Map(
    untyped.map(({ folder }) => [folder, { rule: 'typecheck-script', file: `${folder}/package.json`, message: 'there is no such script' }]),
  );
  for (const text of `${stdout}\n${stderr}`.split('\n')) {
    const [, name, file, line, rule, message] = ERROR_LINE.exec(text) ?? [];
    const folder = packages.find(({ manifest }) => manifest.name === name)?.folder;
    if (folder !== undefined) found.set(`${folder}/${file}:${line} ${rule}`, { rule, file: `${folder}/${file}`, line, message });
  }
  const findings = [...found.values()];
  if (code !== 0 && !findings.some(({ rule }) => rule.startsWith('TS'))) findings.push({ rule: 'turbo', message: `exit code ${code}\n${stdout}${stderr}` });
  const cached = /Cached:\s+(\d+) cached/.exec(stdout)?.[1] ?? '0';
  return { findings, seen: `${packages.length} packages, ${cached} tasks unchanged` };
}
