import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';
import { PLANTED_BUGS } from '../prove/planted-bugs.js';

const ROOT = fileURLToPath(new URL('../../..', import.meta.url));
const page = readFileSync(join(ROOT, 'docs/guarantees.md'), 'utf8');

/** The lines of the tables, without heads: their last cell names tests, as `path › part of a title`; `› part` alone stays in the file before it. */
const lines = page
  .split('\n')
  .filter((line) => line.startsWith('| ') && !/^\| (---|promise|fault)/.test(line))
  .map((line) => line.split('|').at(-2) ?? '');

test('every guarantee names a test, and the test is there', () => {
  expect(lines.length).toBeGreaterThan(25);
  const missing: string[] = [];
  for (const cell of lines) {
    const named = [...cell.matchAll(/`([^`]+)`/g)].map(([, name]) => name ?? '');
    if (named.length === 0) missing.push(`no test is named: ${cell}`);
    let file = '';
    for (const name of named) {
      const [path = '', part] = name.includes('/') ? name.split(' › ') : [file, name.replace(/^› /, '')];
      file = path;
      if (!existsSync(join(ROOT, path))) missing.push(`there is no ${path}`);
      else if (part !== undefined && !readFileSync(join(ROOT, path), 'utf8').includes(part)) missing.push(`${path} has no "${part}"`);
    }
  }
  expect(missing).toEqual([]);
});

test('every bug that is planted against a rule still has its one place in the code, and its test', () => {
  const misplaced = PLANTED_BUGS.filter(({ file, from }) => readFileSync(join(ROOT, file), 'utf8').split(from).length !== 2);
  const untested = PLANTED_BUGS.filter(({ folder, test: path, title }) => !readFileSync(join(ROOT, folder, path), 'utf8').includes(title.split(': ')[0] ?? ''));
  expect([misplaced, untested].map((bugs) => bugs.map(({ what }) => what))).toEqual([[], []]);
});
