import { afterAll, beforeAll, expect, test } from 'vitest';
import { createBackend } from '../../src/create-backend.js';
import { rows, transact } from '../../src/database/sql.js';
import { type BackendForTest, backendForTest } from '../backend-for-test.js';

let onward: BackendForTest;
beforeAll(async () => {
  onward = await backendForTest({ AUTOMATIONS_SWEEP_INTERVAL_MS: '1000000' });
});
// This fails too when the backend that was refused has left a connection behind.
afterAll(() => onward?.close());

const offset = async () => (await rows<{ ms: string }>(onward.source, 'SELECT offset_ms AS ms FROM clock_offset'))[0]?.ms;
const real = () => ({ ...onward.settings, hasTestClock: false, port: 0, rpcPort: 0 });

const moves = [
  ['forward', 'UPDATE clock_offset SET offset_ms = offset_ms + 1'],
  ['back', 'UPDATE clock_offset SET offset_ms = offset_ms - 1'],
  ['by a row of another', 'INSERT INTO clock_offset (one, offset_ms) VALUES (true, 5)'],
  ['by taking its row away', 'DELETE FROM clock_offset'],
  ['by emptying its table', 'TRUNCATE clock_offset'],
] as const;

test.each(moves)('the clock cannot be moved %s by whoever does not say that this is a test', async (_how, statement) => {
  const before = await offset();
  await expect(rows(onward.source, statement)).rejects.toThrow('the clock can be moved only with the test clock on');
  expect(await offset()).toBe(before);
});

test.each(moves.slice(1))('even a test cannot move the clock %s', async (_how, statement) => {
  await onward.clock.advance('PT1S');
  const before = await offset();
  const moved = transact(onward.source, async (tx) => {
    await rows(tx, `SELECT set_config('onward.test_clock', 'on', true)`);
    await rows(tx, statement);
  });
  await expect(moved).rejects.toThrow(/the clock (moves forward only|has one row, which stays)/);
  expect(await offset()).toBe(before);
});

test('over the API the clock is moved forward only, and everything due counts by it', async () => {
  const before = await rows<{ now: Date }>(onward.source, 'SELECT onward_now() AS now');
  await onward.clock.advance('PT1H');
  const after = await rows<{ now: Date }>(onward.source, 'SELECT onward_now() AS now');
  expect((after[0]?.now.getTime() ?? 0) - (before[0]?.now.getTime() ?? 0)).toBeGreaterThanOrEqual(3_600_000);
  const set = await offset();
  expect((await onward.api('POST', '/test/clock', { set: new Date().toISOString() })).status).toBe(400);
  expect((await onward.api('POST', '/test/clock', { advance: '-PT1H' })).status).toBe(400);
  expect(await offset()).toBe(set);
});

test('a database whose clock was moved is refused by a backend that has no test clock', async () => {
  await onward.clock.advance('PT1S');
  await expect(createBackend(real())).rejects.toThrow(/clock of this database was moved by a test/);
});

test('a backend without the test clock has no route that moves it', async () => {
  const untouched = await backendForTest({ ONWARD_TEST_CLOCK: '0', AUTOMATIONS_MINIMUM_WAIT_MS: '60000', AUTOMATIONS_SWEEP_INTERVAL_MS: '1000000' });
  try {
    expect((await untouched.api('POST', '/test/clock', { advance: 'PT1H' })).status).toBe(404);
    expect(await rows(untouched.source, 'SELECT offset_ms AS ms FROM clock_offset')).toEqual([{ ms: '0' }]);
  } finally {
    await untouched.close();
  }
});
