/**
 * Keeps a server (PostgreSQL, Valkey) there: when it ends unasked, it is started again on the same port.
 *
 * Restarts wait 0.2 s at first and up to 5 s; after a start that lasted 10 s the wait begins anew. Not promised: that the
 * port is still free; the log tells when the server had to take another, and clients must then be restarted.
 */
import { setTimeout as pause } from 'node:timers/promises';
import type { Log } from './log.js';

/** What every server handle of this package has. */
export type Service = { readonly port: number; readonly exited: Promise<string>; stop(): Promise<void>; kill(signal: NodeJS.Signals): void };

export type KeptService<Handle extends Service> = {
  /** The handle of the latest start; its server may be down at this moment. */
  current(): Handle;
  stop(): Promise<void>;
};

const FIRST_BACKOFF_MS = 200;
const LONGEST_BACKOFF_MS = 5_000;
const GOOD_LIFE_MS = 10_000;

/** Throws when the first start fails; later failures are logged and tried again. `start` gets the port to use, if one is set. */
export async function keepService<Handle extends Service>(
  name: string,
  start: (port: number | undefined) => Promise<Handle>,
  log: Log,
): Promise<KeptService<Handle>> {
  let handle = await start(undefined);
  const stopping = new AbortController();
  const { port } = handle;

  /** One restart; undefined when the stop came first. */
  const restart = async (backoffMs: number): Promise<Handle | undefined> => {
    await pause(backoffMs, undefined, { signal: stopping.signal }).catch(() => undefined);
    if (stopping.signal.aborted) return undefined;
    try {
      return await start(port);
    } catch (error) {
      log(error instanceof Error ? error.message : String(error));
      return restart(Math.min(backoffMs * 2, LONGEST_BACKOFF_MS));
    }
  };
  const keep = async (): Promise<void> => {
    let backoffMs = FIRST_BACKOFF_MS;
    for (;;) {
      const bornAt = Date.now();
      const how = await handle.exited;
      if (stopping.signal.aborted) return;
      log(`${name}: ${how}; starting it again`);
      backoffMs = Date.now() - bornAt >= GOOD_LIFE_MS ? FIRST_BACKOFF_MS : Math.min(backoffMs * 2, LONGEST_BACKOFF_MS);
      const next = await restart(backoffMs);
      if (next === undefined) return;
      handle = next;
      if (stopping.signal.aborted) await handle.stop(); // the stop came while it was being started
    }
  };
  const kept = keep();
  return {
    current: () => handle,
    stop: async () => {
      stopping.abort();
      await handle.stop();
      await kept;
    },
  };
}
