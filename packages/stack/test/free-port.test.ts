import { once } from 'node:events';
import { type AddressInfo, createServer } from 'node:net';
import { expect, test } from 'vitest';
import { freePort, isFree } from '../src/free-port.js';

test('the preferred port is given while it is free, the next free one while it is not', async () => {
  const preferred = await freePort();
  expect(await freePort(preferred)).toBe(preferred);
  const taker = createServer().listen(preferred, '127.0.0.1');
  await once(taker, 'listening');
  expect(await isFree(preferred)).toBe(false);
  expect(await freePort(preferred)).toBeGreaterThan(preferred);
  taker.close();
  await once(taker, 'close');
  expect(await freePort(preferred)).toBe(preferred);
});

test('a server on all addresses takes the port as well', async () => {
  const taker = createServer().listen(0, '0.0.0.0');
  await once(taker, 'listening');
  expect(await isFree((taker.address() as AddressInfo).port)).toBe(false);
  taker.close();
});

test('a port that was given out is not given out again, to those who ask at the same moment or later, though nobody uses it yet', async () => {
  const ports = await Promise.all(Array.from({ length: 50 }, () => freePort()));
  while (ports.length < 600) ports.push(await freePort());
  expect(new Set(ports).size).toBe(600);
  for (const port of ports) expect(port >= 20_000 && port < 32_000).toBe(true);
});
