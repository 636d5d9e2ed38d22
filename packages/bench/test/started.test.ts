import { expect, it } from 'vitest';
import { endAll, endLater } from '../src/started.js';

/** One file, one process: after `endAll` nothing can be started any more. */
it('ends what is there once each, the youngest first, waits for what is being ended, and lets nothing be started afterwards', async () => {
  const ended: string[] = [];
  let release = (): void => undefined;
  const held = new Promise<void>((resolve) => {
    release = resolve;
  });
  endLater(async () => void ended.push('servers'));
  const closeSlow = endLater(async () => {
    await held;
    ended.push('slow');
  });
  const closeBroken = endLater(() => Promise.reject(new Error('gone already')));
  endLater(async () => void ended.push('youngest'));
  const closing = closeSlow();
  const all = endAll();
  expect(() => endLater(() => Promise.resolve())).toThrow('Interrupted');
  await new Promise(setImmediate);
  expect(ended).toEqual(['youngest']);
  release();
  await Promise.all([all, closing, closeSlow()]);
  expect(ended).toEqual(['youngest', 'slow', 'servers']);
  await expect(closeBroken()).rejects.toThrow('gone already');
});
