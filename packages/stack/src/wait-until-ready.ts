/** Asks a readiness URL until it answers 2xx. */
import { setTimeout as pause } from 'node:timers/promises';

const ASK_EVERY_MS = 100;
const ONE_ANSWER_WITHIN_MS = 2_000;
const READY_WITHIN_MS = 90_000;

/** Throws when it is not ready within the time, with what it last said, or when `givenUp` is aborted. */
export async function waitUntilReady(url: string, givenUp: AbortSignal, readyWithinMs = READY_WITHIN_MS): Promise<void> {
  let last = 'no answer';
  for (const giveUpAt = Date.now() + readyWithinMs; Date.now() < giveUpAt; await pause(ASK_EVERY_MS, undefined, { signal: givenUp })) {
    try {
      const response = await fetch(url, { signal: AbortSignal.any([givenUp, AbortSignal.timeout(ONE_ANSWER_WITHIN_MS)]) });
      const body = await response.text();
      if (response.ok) return;
      last = `${response.status} ${body.slice(0, 300)}`;
    } catch (error) {
      givenUp.throwIfAborted();
      last = error instanceof Error ? error.message : String(error);
    }
  }
  throw new Error(`${url} is not ready after ${readyWithinMs / 1_000} s (${last}); the logs say more`);
}
