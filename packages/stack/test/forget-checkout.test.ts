import { existsSync, mkdirSync, readdirSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { afterAll, expect, test } from 'vitest';
import { forgetCheckout, findOutsideData, hasLostItsKeys } from '../src/forget-checkout.js';
import { placeData } from '../src/postgres-data.js';
import { birthOf } from '../src/process-birth.js';
import { findUnprivilegedAccount } from '../src/unprivileged-account.js';
import { endAfterTest } from './end-after-test.js';
import { runChild } from './run-child.js';
import { makeTemporaryFolder } from './temporary-folder.js';

const folder = makeTemporaryFolder();
let homes = 0;

/** A home that only its owner enters, so that for root the database goes outside. Answers where the database goes. */
function makeHome(): { home: string; data: string } {
  const home = join(folder, `home-${homes++}`);
  mkdirSync(join(home, 'run'), { recursive: true, mode: 0o700 });
  const data = placeData(join(home, 'postgres'), findUnprivilegedAccount(), () => {});
  mkdirSync(data, { recursive: true });
  writeFileSync(join(data, 'PG_VERSION'), '18\n');
  return { home, data };
}

afterAll(async () => {
  for (let nth = 0; nth < homes; nth++) await forgetCheckout(join(folder, `home-${nth}`), () => {});
});

test('to begin anew removes all of a checkout, the database that lies elsewhere as well, after saying where; the claim stays', async () => {
  const { home, data } = makeHome();
  writeFileSync(join(home, 'secrets.json'), '{}');
  writeFileSync(join(home, 'run', 'stack.owner'), '{}');
  const outside = findOutsideData(home);
  expect(outside).toBe(data.startsWith(home) ? undefined : dirname(data));
  const log: string[] = [];
  await forgetCheckout(home, (line) => {
    expect(existsSync(data)).toBe(true);
    log.push(line);
  });
  expect(log).toEqual([`--fresh: removing all data of this checkout, in ${home}${outside === undefined ? '' : ` and ${outside}`}`]);
  expect(existsSync(data)).toBe(false);
  expect(outside !== undefined && existsSync(outside)).toBe(false);
  expect([readdirSync(home), readdirSync(join(home, 'run'))]).toEqual([['run'], ['stack.owner']]);
});

test('a database whose home was removed has lost its keys; one with a home, or none at all, has not', () => {
  const { home, data } = makeHome();
  const isOutside = !data.startsWith(home);
  expect(hasLostItsKeys(home)).toBe(isOutside);
  writeFileSync(join(home, 'secrets.json'), '{}');
  expect(hasLostItsKeys(home)).toBe(false);
  const empty = join(folder, `home-${homes++}`);
  mkdirSync(empty, { mode: 0o700 });
  expect(hasLostItsKeys(empty)).toBe(false);
});

test('a server that a killed start left on the data is ended before they go', async () => {
  const home = join(folder, `home-${homes++}`);
  mkdirSync(home);
  const dying = runChild('start-servers.mjs', [home, 'valkey']);
  const { valkey } = JSON.parse(await dying.nextLine()) as { valkey: { pid: number } };
  endAfterTest(valkey.pid);
  await dying.end('SIGKILL');
  expect(birthOf(valkey.pid)).toBeDefined();
  await forgetCheckout(home, () => {});
  expect(birthOf(valkey.pid)).toBeUndefined();
  expect(readdirSync(home)).toEqual([]);
});
