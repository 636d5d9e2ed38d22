/**
 * One stack at a time runs in a checkout: `npm start` and `pnpm stack:dev` use the same data, ports and pid files.
 */
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { claim } from './claim.js';

export type CheckoutClaim = { readonly kind: 'claimed'; release(): void } | { readonly kind: 'held'; readonly sentence: string };

/** Claims the checkout for this process, or says in a sentence for people which process has it. */
export function claimCheckout(homeFolder: string): CheckoutClaim {
  const runDir = join(homeFolder, 'run');
  mkdirSync(runDir, { recursive: true });
  const answer = claim(join(runDir, 'stack.owner'), 'the stack of this checkout');
  if (answer.kind === 'claimed') return answer;
  return { kind: 'held', sentence: `Onward is already running in this checkout (process ${answer.pid}). Stop it first, with Ctrl+C in its terminal.` };
}
