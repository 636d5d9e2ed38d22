/**
 * One stack at a time runs in a checkout: `npm start` and `pnpm stack:dev` use the same data, ports and pid files.
 */
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { claim } from './claim.js';

/** Answers how to give it back; throws, naming the other process, when one is running. */
export function claimCheckout(homeFolder: string): () => void {
  const runDir = join(homeFolder, 'run');
  mkdirSync(runDir, { recursive: true });
  const answer = claim(join(runDir, 'stack.owner'), 'the stack of this checkout');
  if (answer.kind === 'held')
    throw new Error(`Onward is already running in this checkout (process ${answer.pid}). Stop it first, with Ctrl+C in its terminal.`);
  return () => answer.release();
}
