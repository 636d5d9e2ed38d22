import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, describe, expect, test } from 'vitest';
import { endLeftOvers } from '../src/end-left-overs.js';
import { birthOf } from '../src/process-birth.js';
import { recordProcess } from '../src/process-record.js';
import { type Supervised, supervise } from '../src/supervisor.js';
import { createWatchedList } from '../src/watched-list.js';
import { endAfterTest } from './end-after-test.js';
import { childScript, runChild } from './run-child.js';
import { makeTemporaryFolder } from './temporary-folder.js';

const folder = makeTemporaryFolder();
let runs = 0;
/** What a failing test leaves running would outlive the whole run, being in process groups of its own. */
const started: Supervised[] = [];
afterEach(async () => {
  for (const child of started.splice(0)) await child.stop();
});

function plan(args: readonly string[], more: { stopWithinMs?: number; runDir?: string } = {}) {
  const lines = createWatchedList<string>([], 'lines');
  const runDir = more.runDir ?? join(folder, `run-${runs++}`);
  const log = (line: string): void => lines.add(line);
  const start = async (): Promise<Supervised> => {
    const child = await supervise({ name: 'child', args, env: { GREETING: 'hello' }, cwd: folder, log, ...more, runDir });
    started.push(child);
    return child;
  };
  return { lines, runDir, start };
}

describe('a supervised process', () => {
  test('gives its output line by line, runs with exactly the environment it was given, and ends when asked', async () => {
    const script = join(folder, 'greet.mjs');
    writeFileSync(script, 'console.log(Object.keys(process.env).join(), process.env.GREETING); console.error("loud"); setInterval(() => {}, 60_000);');
    const { lines, start } = plan([script]);
    const child = await start();
    await lines.waitFor((all) => all.length >= 2);
    expect([...lines.all()].sort()).toEqual(['GREETING hello', 'loud']);
    const pid = child.pid() ?? 0;
    await Promise.all([child.stop(), child.stop()]);
    expect(birthOf(pid)).toBeUndefined();
    expect(child.pid()).toBeUndefined();
    expect(child.countRestarts()).toBe(0);
  });

  test('is started again whenever it dies, each time after a longer wait', async () => {
    const { lines, start } = plan([childScript('stay.mjs')]);
    const child = await start();
    const deaths = (all: readonly string[]): readonly string[] => all.filter((line) => line.includes('starting again'));
    for (const nth of [1, 2]) {
      await lines.waitFor((all) => all.filter((line) => line.startsWith('up as')).length === nth);
      child.kill('SIGKILL');
      await lines.waitFor((all) => deaths(all).length === nth);
    }
    await lines.waitFor((all) => all.filter((line) => line.startsWith('up as')).length === 3);
    expect(child.countRestarts()).toBe(2);
    expect(deaths(lines.all())).toEqual(['was ended by SIGKILL; starting again in 0.2 s', 'was ended by SIGKILL; starting again in 0.4 s']);
    expect(new Set(lines.all().filter((line) => line.startsWith('up as'))).size).toBe(3);
    await child.stop();
  });

  test('that ignores SIGTERM is ended by SIGKILL after the deadline', async () => {
    const { lines, start } = plan([childScript('stay.mjs'), 'stubborn'], { stopWithinMs: 300 });
    const child = await start();
    await lines.waitFor((all) => all.length === 1);
    const pid = child.pid() ?? 0;
    await child.stop();
    expect(birthOf(pid)).toBeUndefined();
    expect(lines.all()).toContain('asked to end');
    expect(lines.all()).toContain('still there 0.3 s after SIGTERM');
  });

  test('is not started again by a death that meets the stop', async () => {
    const { lines, runDir, start } = plan([join(folder, 'missing.mjs')]);
    const child = await start();
    await lines.waitFor((all) => all.some((line) => line.includes('exited with code 1; starting again')));
    await child.stop();
    const ends = lines.all().length;
    expect(child.pid()).toBeUndefined();
    expect(existsSync(join(runDir, 'child.json'))).toBe(false);
    expect(lines.all()).toHaveLength(ends);
  });

  test('whose supervisor was killed is ended before it is started anew', async () => {
    const runDir = join(folder, `run-${runs++}`);
    mkdirSync(runDir);
    const supervisor = runChild('supervise-one.mjs', [runDir, childScript('stay.mjs')], { env: {} });
    const orphan = Number(await supervisor.nextLine());
    endAfterTest(orphan);
    await supervisor.end('SIGKILL');
    expect(birthOf(orphan)).toBeDefined();
    const { lines, start } = plan([childScript('stay.mjs')], { runDir });
    const child = await start();
    expect(birthOf(orphan)).toBeUndefined();
    expect(lines.all()[0]).toBe(`ending child of an earlier start (process ${orphan})`);
    await child.stop();
  });

  test('never costs a stranger its life: a pid file whose process is another by now is passed over', async () => {
    const stranger = spawn(process.execPath, [childScript('stay.mjs')], { stdio: 'ignore', env: {} });
    endAfterTest(stranger.pid);
    const { lines, runDir, start } = plan([childScript('stay.mjs')]);
    mkdirSync(runDir);
    writeFileSync(join(runDir, 'child.json'), JSON.stringify({ pid: stranger.pid, birth: 'another boot/1', what: 'child' }));
    const child = await start();
    expect(JSON.parse(readFileSync(join(runDir, 'child.json'), 'utf8'))).toMatchObject({ pid: child.pid() });
    expect(lines.all().filter((line) => line.includes('ending'))).toEqual([]);
    expect(stranger.exitCode).toBeNull();
    expect(birthOf(stranger.pid ?? 0)).toBeDefined();
    await child.stop();
    expect(birthOf(stranger.pid ?? 0)).toBeDefined();
  });
});

test('what a killed start left running is ended, the backend last, and no stranger', async () => {
  const runDir = join(folder, `run-${runs++}`);
  mkdirSync(runDir);
  const ended: string[] = [];
  const left = ['backend', 'worker', 'gateway'].map((name) => {
    const child = spawn(process.execPath, [childScript('stay.mjs')], { stdio: ['ignore', 'pipe', 'ignore'], env: {} });
    endAfterTest(child.pid);
    child.once('exit', () => ended.push(name));
    return { name, child };
  });
  await Promise.all(left.map(({ child }) => once(child.stdout, 'data')));
  for (const { name, child } of left) recordProcess(join(runDir, `${name}.json`), child.pid ?? 0, name);
  writeFileSync(join(runDir, 'stranger.json'), JSON.stringify({ pid: process.pid, birth: 'another boot/1', what: 'stranger' }));
  const exits = left.map(({ child }) => once(child, 'exit'));
  await endLeftOvers(runDir, 'backend', () => {});
  await Promise.all(exits);
  expect(ended.at(-1)).toBe('backend');
  expect(readdirSync(runDir)).toEqual([]);
});
