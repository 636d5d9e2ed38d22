import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { claim } from '../src/claim.js';
import { birthOf } from '../src/process-birth.js';
import { makeTemporaryFolder } from './temporary-folder.js';

const folder = makeTemporaryFolder();

test('a claim is held until it is released, and then free', () => {
  const file = join(folder, 'one');
  const first = claim(file, 'the first');
  expect(first.kind).toBe('claimed');
  expect(claim(file, 'the second')).toEqual({ kind: 'held', pid: process.pid, what: 'the first' });
  if (first.kind === 'claimed') first.release();
  expect(existsSync(file)).toBe(false);
  expect(claim(file, 'the third').kind).toBe('claimed');
});

test('a dead holder holds nothing, whether its pid is free or belongs to another process now', () => {
  const file = join(folder, 'dead');
  writeFileSync(file, JSON.stringify({ pid: 999_999_999, birth: 'x', what: 'gone' }));
  expect(claim(file, 'anew').kind).toBe('claimed');
  writeFileSync(file, JSON.stringify({ pid: process.pid, birth: 'another birth', what: 'gone' }));
  expect(claim(file, 'anew').kind).toBe('claimed');
  writeFileSync(file, 'not even JSON');
  expect(claim(file, 'anew').kind).toBe('claimed');
  expect(readdirSync(folder).filter((name) => name.startsWith('dead'))).toEqual(['dead']);
});

test('releasing a claim that somebody else has by now leaves theirs', () => {
  const file = join(folder, 'taken-over');
  const mine = claim(file, 'mine');
  writeFileSync(file, 'theirs');
  if (mine.kind === 'claimed') mine.release();
  expect(existsSync(file)).toBe(true);
});

test('a process has one birth for its whole life, and none afterwards', async () => {
  const child = spawn(process.execPath, ['-e', 'setInterval(() => {}, 60_000)'], { stdio: 'ignore' });
  const pid = child.pid ?? 0;
  const birth = birthOf(pid);
  expect(birth).toBeDefined();
  expect(birthOf(pid)).toBe(birth);
  expect(birthOf(process.pid)).not.toBe(birth);
  child.kill('SIGKILL');
  await once(child, 'exit');
  expect(birthOf(pid)).toBeUndefined();
});
