/**
 * The worker as a whole: from the settings to runs being driven, and back to nothing. Holds no database and opens no port.
 *
 * It starts when the backend and Valkey are reachable and says for what it waits. Stopping takes no new wake-ups, sends nothing that waits for its target, lets sends in flight end
 * (10 s), cuts those that did not (they are uncertain), gives every run back, and is bounded even with Valkey or the backend away.
 */
import { randomUUID } from 'node:crypto';
import { setMaxListeners } from 'node:events';
import { FRAME_PATTERN } from '@onward/contracts/frame';
import { BackendClient } from '@onward/wire/client';
import { FailPoints } from '@onward/wire/fail-points';
import { waitForPort } from '@onward/wire/wait-for-port';
import { settled, within } from '@onward/wire/wind-down';
import type { Logger } from 'pino';
import { Conversation, type Rest } from './conversation.js';
import { drive } from './drive.js';
import { FrameBatcher } from './frame-batcher.js';
import { IntakeGate } from './intake-gate.js';
import { Leases } from './leases.js';
import { createPerform } from './perform.js';
import { PlanCache } from './plan-cache.js';
import type { Settings } from './settings.js';
import { Targets } from './targets/targets.js';
import { takeWakeUps } from './wake-ups.js';

const SENDS_END_WITHIN_MS = 10_000;
const RECORDS_END_WITHIN_MS = 5_000;
const QUEUE_CLOSES_WITHIN_MS = 2_000;

export type AutomationWorker = {
  /** Resolves when everything is closed, within 20 s. Never throws. */
  stop(): Promise<void>;
  /** Resolves when the queue can no longer be heard, over new connections neither: whoever started the worker stops it and begins anew. */
  deaf: Promise<void>;
};

/** Throws the reason of `signal` when it is aborted while waiting for the backend or Valkey. */
export async function startWorker(settings: Settings, log: Logger, { signal }: { signal: AbortSignal }): Promise<AutomationWorker> {
  const client = new BackendClient(settings.backend);
  // Renewals go out all the time, so theirs is the connection that knows first when the backend is away, and says so for both.
  const renewing = new BackendClient({ ...settings.backend, log });
  try {
    await Promise.all([client.waitUntilReachable(log, { signal }), waitForPort('Valkey', settings.valkeyUrl, log, { signal })]);
  } catch (error) {
    client.close();
    renewing.close();
    throw error;
  }
  const stopping = new AbortController();
  setMaxListeners(0, stopping.signal); // Every send that waits for its target listens.
  const cut = new AbortController();
  const failPoints = new FailPoints(settings.failPoints);
  const targets = new Targets({ ...settings, log, workers: () => leases.workers });
  const leases = new Leases(renewing, randomUUID(), settings.leaseMs, () => targets.report());
  const gate = new IntakeGate(settings.concurrency, stopping.signal);
  const frames = new FrameBatcher((text, options) => client.callWithText(FRAME_PATTERN, text, options), {
    timeoutMs: settings.backend.timeoutMs,
    noteFrame: (tookMs) => gate.noteFrame(tookMs),
  });
  const backend = new Conversation(client, frames, leases, new PlanCache(), failPoints);
  const perform = createPerform({ allow: settings.allow, cut: cut.signal, targets, failPoints, secret: settings.backend.secret });
  const inHand = new Set<Promise<Rest>>();
  const wakeUps = takeWakeUps({
    ...settings,
    log,
    handle: async (wakeUp, callId) => {
      if ((await gate.enter()) === 'stopping') return giveBack();
      const driving = drive(wakeUp, callId, { backend, perform, stopping: stopping.signal });
      inHand.add(driving);
      return driving.finally(() => {
        inHand.delete(driving);
        gate.leave();
      });
    },
  });
  leases.start();
  log.info({ concurrency: settings.concurrency }, 'the worker takes wake-ups');

  return {
    deaf: wakeUps.deaf,
    stop: async () => {
      stopping.abort();
      const closing = wakeUps.stopTaking().catch((error: unknown) => log.warn({ why: String(error) }, 'the queue could not be closed'));
      await within(SENDS_END_WITHIN_MS, settled(inHand));
      cut.abort(new Error('the worker is stopping'));
      await within(RECORDS_END_WITHIN_MS, settled(inHand));
      await within(QUEUE_CLOSES_WITHIN_MS, closing);
      leases.stop();
      targets.close();
      wakeUps.disconnect();
      client.close();
      renewing.close();
    },
  };
}

/** For a wake-up that nothing was begun for: another worker is handed it at once. */
function giveBack(): Rest {
  return { kind: 'not_due', dueAt: new Date().toISOString(), inMs: 0 };
}
