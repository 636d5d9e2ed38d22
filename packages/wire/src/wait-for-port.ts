import { connect } from 'node:net';
import { setTimeout as pause } from 'node:timers/promises';
import type { Log } from './client.js';

const CONNECT_TIMEOUT_MS = 2_000;
const PAUSE_MS = 500;
const DEFAULT_PORTS: Readonly<Record<string, number>> = { 'redis:': 6379, 'rediss:': 6379 };

/**
 * Returns when something listens at the host and port of `url`; says once, through `log`, what it waits for, without the URL's credentials.
 * Throws the reason of `signal` when it is aborted first.
 */
export async function waitForPort(what: string, url: string, log: Pick<Log, 'info'>, { signal }: { signal: AbortSignal }): Promise<void> {
  const { hostname, port, protocol } = new URL(url);
  const at = { host: hostname.replace(/^\[|\]$/g, ''), port: Number(port) || (DEFAULT_PORTS[protocol] ?? 0) };
  for (let dial = 1; ; dial += 1) {
    signal.throwIfAborted();
    const why = await dialOnce(at);
    if (why === null) return;
    if (dial === 1) log.info({ ...at, why }, `waiting for ${what} at ${at.host}:${at.port}`);
    await pause(PAUSE_MS, undefined, { signal }).catch(() => signal.throwIfAborted());
  }
}

function dialOnce(at: { host: string; port: number }): Promise<string | null> {
  return new Promise((resolve) => {
    const socket = connect(at);
    const end = (why: string | null) => {
      socket.destroy();
      resolve(why);
    };
    socket.setTimeout(CONNECT_TIMEOUT_MS, () => end('no answer'));
    socket.once('connect', () => end(null));
    socket.once('error', (error) => end(error.message));
  });
}
