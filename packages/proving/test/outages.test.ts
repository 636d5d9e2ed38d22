import { afterAll, beforeAll, expect, test } from 'vitest';
import { checkHistories } from '../src/check-histories.js';
import { install, type Installation } from '../src/installation.js';
import { forward, line, onEvent, publish, tag, wait } from '../src/journeys.js';
import { type OwnServices, startOwnServices } from '../src/own-services.js';

let services: OwnServices;
let onward: Installation;
beforeAll(async () => {
  services = await startOwnServices();
  onward = await install({ postgresUrl: services.postgres().url('postgres'), valkeyUrl: services.valkey().url });
  await publish(onward.api, 'short', line(onEvent('out.short'), tag('a', 'a')), { reentry: 'always' });
});
afterAll(async () => {
  await onward?.close();
  await services?.stop();
});

const emit = (id: string, type = 'out.short') => onward.api.call('POST', '/events', { id, type, contact: { email: `${id}@example.test` } });
const ended = (like: string) => async () => (await onward.query(`SELECT 1 FROM runs WHERE event_id LIKE $1 AND ended_at IS NULL`, [like])).length === 0;

test('while Valkey is down events are accepted at once, readiness says degraded, and the runs start when it is back', async () => {
  services.valkey().kill('SIGSTOP');
  for (let nth = 0; nth < 20; nth += 1) expect((await emit(`v${nth}`)).status).toBe(201);
  const { status, body } = await health();
  expect([status, body.status]).toEqual([200, 'degraded']);
  expect((await onward.query(`SELECT 1 FROM runs WHERE event_id LIKE 'v%' AND state = 'pending'`)).length).toBeGreaterThan(0);
  services.valkey().kill('SIGCONT');
  await onward.until('all have ended', ended('v%'));
  expect(await checkHistories(onward)).toEqual([]);
});

test('while Postgres is down the API answers 503 with a problem and accepts nothing, and what was accepted before ends', async () => {
  expect((await emit('p1')).status).toBe(201);
  await services.withoutPostgres(async () => {
    for (let nth = 0; nth < 5; nth += 1) {
      const { status, body } = await emit(`p2-${nth}`);
      expect([status, body]).toMatchObject([503, { type: 'urn:onward:error:unavailable', status: 503 }]);
    }
    const { status, body } = await health();
    expect([status, body.status]).toEqual([503, 'not_ready']);
  });
  await onward.until('the API accepts again', async () => (await emit('p3')).status < 300, 30_000);
  await onward.until('all have ended', ended('p%'));
  expect(await onward.query(`SELECT event_id FROM runs WHERE event_id LIKE 'p%' ORDER BY 1`)).toEqual([{ event_id: 'p1' }, { event_id: 'p3' }]);
  expect(await checkHistories(onward)).toEqual([]);
});

test('F10: when every process is stopped and started during a wait, the run goes on after it, and no step before it is repeated', async () => {
  const { api, target, query } = onward;
  await publish(api, 'waits', line(onEvent('out.wait'), forward('call', `${target.url}/f10`), wait('rest', '2m'), tag('b', 'b')), { reentry: 'always' });
  await emit('f10', 'out.wait');
  await onward.until('the run waits', async () => (await query(`SELECT 1 FROM runs WHERE event_id = 'f10' AND state = 'waiting'`)).length === 1);
  for (const process of Object.values(onward.processes)) process.kill('SIGTERM');
  await onward.until('every process was started again', async () => Object.values(onward.processes).every((one) => one.countRestarts() > 0));
  await onward.until('the backend is ready', async () => (await api.ready()) === 200);
  await api.must('POST', '/test/clock', { advance: '10m' });
  await onward.until('the run has ended', ended('f10'));
  expect(target.requests().filter(({ path }) => path === '/f10')).toHaveLength(1);
  expect(await query(`SELECT attempts.node, attempts.n FROM attempts JOIN runs ON runs.id = run_id WHERE event_id = 'f10' ORDER BY attempts.seq`)).toEqual([
    { node: 'start', n: 1 },
    { node: 'call', n: 1 },
    { node: 'rest', n: 1 },
    { node: 'b', n: 1 },
    { node: 'finish', n: 1 },
  ]);
});

async function health(): Promise<{ status: number; body: { status: string } }> {
  const response = await fetch(`${onward.api.url}/health/ready`);
  return { status: response.status, body: (await response.json()) as { status: string } };
}
