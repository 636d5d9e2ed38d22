/** Waits until Valkey answers, and says once what it waits for. Credentials of the URL are not printed. */
import { setTimeout as pause } from 'node:timers/promises';
import { Redis } from 'ioredis';
import type { Logger } from 'pino';

const CONNECT_TIMEOUT_MS = 2_000;
const PAUSE_MS = 500;

/** Throws the signal's reason when it is aborted first. */
export async function waitForValkey(url: string, log: Pick<Logger, 'info'>, { signal }: { signal: AbortSignal }): Promise<void> {
  const { host } = new URL(url);
  for (let dial = 1; ; dial++) {
    signal.throwIfAborted();
    const redis = new Redis(url, { lazyConnect: true, connectTimeout: CONNECT_TIMEOUT_MS, commandTimeout: CONNECT_TIMEOUT_MS, retryStrategy: () => null });
    let why = '';
    redis.on('error', (error: Error) => {
      why = error.message;
    });
    try {
      await redis.connect();
      await redis.ping();
      return;
    } catch (error) {
      if (dial === 1) log.info({ host, why: why || String(error) }, `waiting for Valkey at ${host}`);
    } finally {
      redis.disconnect();
    }
    await pause(PAUSE_MS, undefined, { signal }).catch(() => signal.throwIfAborted());
  }
}
