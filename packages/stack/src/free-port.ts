/**
 * Finds a TCP port of 127.0.0.1 that nobody listens on.
 *
 * With a preferred port: that one, or the next free one above it. Without: one between 20000 and 31999, which lies
 * below the range from which kernels give ports to outgoing connections, so a server can come back on it after a stop.
 * Not promised: that it is still free when used; whoever binds it must be ready to ask again.
 */
import { createServer } from 'node:net';
import { randomInt } from 'node:crypto';

const LOWEST = 20_000;
const HIGHEST = 31_999;
const HIGHEST_TCP_PORT = 65_535;

/** Ports given out by this process without being asked for: not given out again, so that parallel callers differ. */
const givenOut = new Set<number>();

/** Throws when every port above the preferred one is taken. */
export async function freePort(preferred?: number): Promise<number> {
  if (preferred === undefined) return anyFreePort();
  for (let port = preferred; port <= HIGHEST_TCP_PORT; port++) {
    if (port === preferred ? await isFree(port) : await takeIfFree(port)) return port;
  }
  throw new Error(`no free TCP port from ${preferred} up`);
}

async function anyFreePort(): Promise<number> {
  for (let tries = 0; tries < 1_000; tries++) {
    const port = randomInt(LOWEST, HIGHEST + 1);
    if (await takeIfFree(port)) return port;
  }
  throw new Error(`no free TCP port between ${LOWEST} and ${HIGHEST}`);
}

/** Notes the port as given out when it is free and was not given out before, nor while we looked. */
async function takeIfFree(port: number): Promise<boolean> {
  if (givenOut.has(port) || !(await isFree(port)) || givenOut.has(port)) return false;
  givenOut.add(port);
  return true;
}

/** Whether a listener could be opened on 127.0.0.1:port at this moment. */
export function isFree(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const probe = createServer();
    probe.once('error', () => resolve(false));
    probe.listen({ port, host: '127.0.0.1', exclusive: true }, () => probe.close(() => resolve(true)));
  });
}
