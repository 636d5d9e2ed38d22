import { Redis } from 'ioredis';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { checkHistories } from '../src/check-histories.js';
import { install, type Installation } from '../src/installation.js';
import { forward, line, onEvent, publish, tag, wait } from '../src/journeys.js';
import { type OwnServices, startOwnServices } from '../src/own-services.js';

let services: OwnServices;
let onward: Installation;
beforeAll(async () => {
  services = await startOwnServices();
  onward = await install({
    postgresUrl: services.postgres().url('postgres'),
    valkeyUrl: services.valkey().url,
    env: { AUTOMATIONS_WORKER_CONCURRENCY: '20' },
  });
});
afterAll(async () => {
  await onward?.close();
  await services?.stop();
});

test('FLUSHALL with 200 runs waiting, pending and running costs only latency', async () => {
  const { api, target, query } = onward;
  await publish(api, 'waits', line(onEvent('flush.wait'), tag('a', 'a'), wait('rest', '1h'), tag('b', 'b')), { reentry: 'always' });
  await publish(api, 'calls', line(onEvent('flush.call'), forward('call', `${target.url}/x`), tag('c', 'c')), { reentry: 'always' });
  target.mode({ kind: 'late', delayMs: 1_000 });
  const emit = (type: string, nth: number) => api.must('POST', '/events', { id: `${type}-${nth}`, type, contact: { email: `${type}-${nth}@example.test` } });
  for (let nth = 0; nth < 100; nth += 1) await emit('flush.wait', nth);
  await onward.until('a hundred runs wait', async () => (await query(`SELECT 1 FROM runs WHERE state = 'waiting'`)).length === 100);
  for (let nth = 0; nth < 100; nth += 1) await emit('flush.call', nth);
  await onward.until('some run and some have not begun', async () => {
    const states = await query<{ state: string }>(`SELECT DISTINCT state FROM runs`);
    return ['pending', 'running', 'waiting'].every((state) => states.some((row) => row.state === state));
  });
  const valkey = new Redis(services.valkey().url);
  await valkey.flushall();
  valkey.disconnect();
  await api.must('POST', '/test/clock', { advance: '1h' });
  await onward.until('every run has ended', async () => (await query(`SELECT 1 FROM runs WHERE ended_at IS NULL`)).length === 0, 60_000);
  expect(await query('SELECT state, count(*)::int FROM runs GROUP BY state')).toEqual([{ state: 'succeeded', count: 200 }]);
  expect(target.requests()).toHaveLength(100);
  expect(await checkHistories(onward)).toEqual([]);
});
