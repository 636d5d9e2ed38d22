/**
 * The mail gateway as a whole: from the settings to a running consumer, and back to nothing.
 *
 * It starts when the backend and Valkey are reachable; the mail server is dialled with the first message. Stopping takes no new
 * jobs, lets the exchanges with the mail server end (20 s), cuts those that did not (their results are still brought to the
 * backend for a moment), and is bounded even when Valkey or the backend is away.
 */
import type { MailJob } from '@onward/contracts/queues';
import { BackendClient } from '@onward/wire/client';
import { FailPoints } from '@onward/wire/fail-points';
import { waitForPort } from '@onward/wire/wait-for-port';
import { settled, within } from '@onward/wire/wind-down';
import type { Logger } from 'pino';
import { handOver } from './hand-over.js';
import { openMailQueue } from './mail-queue.js';
import { deliver } from './send-message.js';
import type { Settings } from './settings.js';
import { openSmtpTransport } from './smtp-transport.js';

const EXCHANGES_END_WITHIN_MS = 20_000;
const RESULTS_END_WITHIN_MS = 3_000;
const QUEUE_CLOSES_WITHIN_MS = 2_000;

export interface Gateway {
  /** Resolves when everything is closed, within 30 s. Never throws. */
  stop(): Promise<void>;
}

/** Throws the reason of `signal` when it is aborted while waiting for the backend or Valkey. */
export async function startGateway(settings: Settings, log: Logger, { signal }: { signal: AbortSignal }): Promise<Gateway> {
  const backend = new BackendClient({ ...settings.backend, log });
  try {
    await Promise.all([backend.waitUntilReachable(log, { signal }), waitForPort('Valkey', settings.valkeyUrl, log, { signal })]);
  } catch (error) {
    backend.close();
    throw error;
  }
  const transport = openSmtpTransport(settings.smtpUrl, { connections: settings.concurrency });
  const failPoints = new FailPoints(settings.failPoints);
  const cut = new AbortController();
  const giveUp = new AbortController();
  const inHand = new Set<Promise<unknown>>();
  const queue = openMailQueue({
    valkeyUrl: settings.valkeyUrl,
    concurrency: settings.concurrency,
    log,
    deliver: (job: MailJob) => {
      const delivery = deliver(job, {
        backend,
        handOver: async (message, options) => {
          failPoints.reach('mail.before-smtp');
          const result = await handOver(transport, message, options);
          failPoints.reach('mail.after-smtp');
          return result;
        },
        announce: queue.announce,
        log,
        cut: cut.signal,
        giveUp: giveUp.signal,
      });
      inHand.add(delivery);
      return delivery.finally(() => inHand.delete(delivery));
    },
  });
  log.info({ concurrency: settings.concurrency }, 'the mail gateway takes messages');

  return {
    stop: async () => {
      const closing = queue.stopTaking().catch((error: unknown) => log.warn({ why: String(error) }, 'the queue could not be closed'));
      await within(EXCHANGES_END_WITHIN_MS, settled(inHand));
      cut.abort();
      await within(RESULTS_END_WITHIN_MS, settled(inHand));
      giveUp.abort(new Error('the gateway was stopped'));
      await within(RESULTS_END_WITHIN_MS, settled(inHand));
      await within(QUEUE_CLOSES_WITHIN_MS, closing);
      queue.disconnect();
      backend.close();
      transport.close({ force: true });
    },
  };
}
