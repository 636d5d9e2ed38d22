import { setTimeout as pause } from 'node:timers/promises';
import { Redis } from 'ioredis';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { checkHistories } from '../src/check-histories.js';
import { type CutProxy, startCutProxy } from '../src/cut-proxy.js';
import { install, type Installation } from '../src/installation.js';
import { line, mailTo, makeTemplate, onEvent, publish, tag, wait } from '../src/journeys.js';
import { letAllEnd } from '../src/let-all-end.js';
import { type OwnServices, startOwnServices } from '../src/own-services.js';
import { stopProcess } from '../src/stop-process.js';

/** Cases of F72: what Valkey loses, and how it goes away, costs nothing but time. Waits are counted by the real clock here. */

const CUT_MS = 10_000;
const WAITING = 100;
const RETRYING = 20;
/** Runs whose wait is over while Valkey cannot be reached. */
const DUE_SOON = 20;
/** A due run is picked up again within this, in ms, once Valkey is back; a hang guard of five times the promise of a minute stands at the test. */
const LATE_AT_MOST_MS = 60_000;

let services: OwnServices;
let proxy: CutProxy;
let onward: Installation;
beforeAll(async () => {
  services = await startOwnServices();
  proxy = await startCutProxy(services.valkey().port);
  onward = await install({ postgresUrl: services.postgres().url('postgres'), valkeyUrl: `redis://127.0.0.1:${proxy.port}` });
});
afterAll(async () => {
  await onward?.close();
  await proxy?.stop();
  await services?.stop();
});

const emit = (type: string, nth: number) =>
  onward.api.must('POST', '/events', { id: `${type}-${nth}`, type, contact: { email: `${type}-${nth}@example.test` } });
const countOf = async (state: string) => (await onward.query('SELECT 1 FROM runs WHERE state = $1', [state])).length;

async function health(): Promise<{ status: number; body: { status: string; valkey: string } }> {
  const response = await fetch(`${onward.api.url}/health/ready`);
  return { status: response.status, body: (await response.json()) as { status: string; valkey: string } };
}

async function withValkey<Result>(work: (valkey: Redis) => Promise<Result>): Promise<Result> {
  const valkey = new Redis(services.valkey().url);
  try {
    return await work(valkey);
  } finally {
    valkey.disconnect();
  }
}

test('F72: waits and retries go on at their time after FLUSHALL, a restart of Valkey and a cut of the line, each next node once', async () => {
  const { api, mail, query } = onward;
  await makeTemplate(api, 'hello');
  await publish(api, 'waits', line(onEvent('waits'), wait('rest', '10m'), tag('next', 'next')));
  await publish(api, 'soon', line(onEvent('soon'), wait('rest', '20s'), tag('next', 'next')));
  await publish(api, 'retries', line(onEvent('retries'), mailTo('greet', 'hello'), tag('next', 'next')));
  mail.mode({ kind: 'refuse_recipient', code: 451 });
  for (let nth = 0; nth < WAITING; nth += 1) await emit('waits', nth);
  for (let nth = 0; nth < RETRYING; nth += 1) await emit('retries', nth);
  for (let nth = 0; nth < DUE_SOON; nth += 1) await emit('soon', nth);
  await onward.until('all rest', async () => (await countOf('waiting')) === WAITING + DUE_SOON && (await countOf('retrying')) === RETRYING);
  const due = await query<{ id: string; dueAt: Date }>(`SELECT id, due_at AS "dueAt" FROM runs WHERE event_id NOT LIKE 'waits-%'`);
  mail.mode({ kind: 'accept' });

  await withValkey((valkey) => valkey.flushall());
  services.valkey().kill('SIGTERM');
  await services.valkey().exited;
  await onward.until('Valkey is back', async () => (await withValkey((valkey) => valkey.ping())) === 'PONG', 60_000);
  await proxy.whileCut(async () => {
    const cutAtMs = performance.now();
    const { status, body } = await health();
    expect([status, body.status]).toEqual([200, 'degraded']);
    expect((await api.call('POST', '/events', { id: 'soon-cut', type: 'soon', contact: { email: 'soon-cut@example.test' } })).status).toBe(201);
    await pause(CUT_MS - (performance.now() - cutAtMs));
  });
  const mendedAt = Date.now();

  await onward.until(
    'what is due goes on',
    async () => (await query(`SELECT 1 FROM runs WHERE ended_at IS NULL AND event_id NOT LIKE 'waits-%'`)).length === 0,
    5 * LATE_AT_MOST_MS,
  );
  const wentOn = new Map(
    (
      await query<{ id: string; at: Date }>(
        `SELECT run_id AS id, min(at) AS at FROM proof.commits WHERE seq > 1 AND epoch = CASE WHEN EXISTS (SELECT 1 FROM messages WHERE messages.run_id = commits.run_id) THEN 3 ELSE 2 END GROUP BY 1`,
      )
    ).map(({ id, at }) => [id, at]),
  );
  const lateMs = due.map(({ id, dueAt }) => (wentOn.get(id)?.getTime() ?? Number.NaN) - Math.max(dueAt.getTime(), 0)).sort((a, b) => a - b);
  console.log(`F72: ${due.length} runs went on ${lateMs[0]} to ${lateMs.at(-1)} ms after their time; the line was mended ${Date.now() - mendedAt} ms ago`);
  // Never early; at most a minute late.
  expect(lateMs[0]).toBeGreaterThanOrEqual(0);
  expect(lateMs.at(-1)).toBeLessThan(LATE_AT_MOST_MS);

  expect(await countOf('waiting')).toBe(WAITING);
  await api.must('POST', '/test/clock', { advance: '10m' });
  await letAllEnd(onward);
  expect(await countOf('succeeded')).toBe(WAITING + RETRYING + DUE_SOON + 1);
  expect(await query(`SELECT n, status, count(*)::int FROM attempts WHERE node = 'next' GROUP BY 1, 2`)).toEqual([
    { n: 1, status: 'done', count: WAITING + RETRYING + DUE_SOON + 1 },
  ]);
  expect(mail.messages()).toHaveLength(RETRYING);
  expect(await checkHistories(onward)).toEqual([]);
}, 400_000);

test('F72: over a Valkey that may evict the backend starts, says so and is not ready, and the API stays up', async () => {
  const { api, lines } = onward;
  await withValkey((valkey) => valkey.config('SET', 'maxmemory-policy', 'allkeys-lru'));
  const heard = lines.length;
  expect((await stopProcess(onward, 'backend')).how).toBe('exited with code 0');
  await onward.until('the backend answers', async () => (await health()).body.status === 'not_ready', 60_000);
  const { status, body } = await health();
  expect([status, body]).toMatchObject([503, { status: 'not_ready', valkey: 'maxmemory-policy is allkeys-lru, it must be noeviction' }]);
  await onward.until('it says so', async () =>
    lines.slice(heard).some((text) => text.startsWith('backend: ') && text.includes('"level":50') && text.includes('maxmemory-policy')),
  );
  expect((await api.call('POST', '/events', { id: 'soon-evicting', type: 'soon', contact: { email: 'soon-evicting@example.test' } })).status).toBe(201);
  await withValkey((valkey) => valkey.config('SET', 'maxmemory-policy', 'noeviction'));
  await onward.until('the backend is ready', async () => (await api.ready()) === 200);
  await letAllEnd(onward);
});
