import { Redis } from 'ioredis';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { startWebhookSink, type WebhookSink } from '@onward/stack/webhook-sink';
import { checkHistories } from '../src/check-histories.js';
import { install, type Installation } from '../src/installation.js';
import { forward, line, onEvent, publish } from '../src/journeys.js';
import { type OwnServices, startOwnServices } from '../src/own-services.js';

/** What a target sees of three workers that keep to its breaker, its rate and its share, whatever it does to them. */
const BREAKER_RESET_MS = 3_000;
const FAILING = 50;

let services: OwnServices;
let targets: Record<'failing' | 'refusing' | 'limited' | 'hanging' | 'well' | 'asking', WebhookSink>;
let onward: Installation;
beforeAll(async () => {
  services = await startOwnServices();
  const made = await Promise.all(Array.from({ length: 6 }, () => startWebhookSink()));
  const [failing, refusing, limited, hanging, well, asking] = made as [WebhookSink, WebhookSink, WebhookSink, WebhookSink, WebhookSink, WebhookSink];
  targets = { failing, refusing, limited, hanging, well, asking };
  onward = await install({
    postgresUrl: services.postgres().url('postgres'),
    valkeyUrl: services.valkey().url,
    workers: 3,
    env: { EGRESS_ALLOW: made.map(({ port }) => `127.0.0.1:${port}`).join(','), AUTOMATIONS_BREAKER_RESET_MS: String(BREAKER_RESET_MS) },
  });
  for (const [name, target] of Object.entries(targets)) {
    await publish(onward.api, name, line(onEvent(name), forward('call', `${target.url}/${name}`, { timeoutMs: 30_000 })), { reentry: 'always' });
  }
});
afterAll(async () => {
  await onward?.close();
  for (const target of Object.values(targets ?? {})) await target.stop();
  await services?.stop();
});

/** Twenty at a time: a client that sends hundreds at once is rightly told to come again. */
async function emit(type: string, count: number, from = 0): Promise<void> {
  const ids = Array.from({ length: count }, (_, nth) => `${type}-${from + nth}`);
  const sender = async (): Promise<void> => {
    for (let id = ids.shift(); id !== undefined; id = ids.shift()) {
      await onward.api.must('POST', '/events', { id, type, contact: { email: `${id}@example.test` } });
    }
  };
  await Promise.all(Array.from({ length: 20 }, sender));
}

type TargetRow = { id: string; origin: string; state: string; blockedRuns: number; why: string | null };
async function read(target: WebhookSink): Promise<TargetRow> {
  const { items } = (await onward.api.must('GET', '/targets?limit=100')) as { items: TargetRow[] };
  const found = items.find(({ origin }) => origin === target.url);
  if (!found) throw new Error(`There is no target ${target.url}`);
  return found;
}
const seen = (target: WebhookSink) => target.requests().length;
const runsOf = (type: string) =>
  onward.query<{ state: string; n: number; seq: number }>(`SELECT state, n, seq FROM runs WHERE event_id LIKE $1`, [`${type}-%`]);
const ended = (type: string) => async () => (await runsOf(type)).every(({ state }) => state === 'succeeded');

/** The most requests in any window of that length. */
function busiest(target: WebhookSink, windowMs: number): number {
  const at = target.requests().map((request) => Date.parse(request.at));
  return Math.max(...at.map((from) => at.filter((one) => one >= from && one < from + windowMs).length));
}

test('fifty failures at once open the breaker; nothing goes out while it is open, one probe tries, and the recovery is paced', async () => {
  const { failing } = targets;
  failing.mode({ kind: 'fail' });
  await emit('failing', FAILING);
  await onward.until('the target is open', async () => (await read(failing)).state === 'open');
  await onward.until('the first fifty have failed once or wait', async () =>
    (await runsOf('failing')).every(({ state }) => state === 'retrying' || state === 'waiting'),
  );

  // Nothing of what comes now reaches it, save one probe each time.
  const before = seen(failing);
  await emit('failing', 40, FAILING);
  await onward.until('they wait for the target', async () => (await read(failing)).blockedRuns >= 39);
  await onward.until('two probes have gone out', async () => seen(failing) >= before + 2);
  const [parked] = (await onward.api.must('GET', `/runs?target=${encodeURIComponent(failing.url)}`))['items'] as { why: string; attempt: number }[];
  expect(parked?.why).toContain(failing.url);
  expect(parked?.attempt).toBe(1);
  const probes = failing.requests().slice(before);
  for (const [index, probe] of probes.entries()) {
    const next = probes[index + 1];
    if (next) expect(Date.parse(next.at) - Date.parse(probe.at)).toBeGreaterThanOrEqual(BREAKER_RESET_MS - 200);
  }

  failing.mode({ kind: 'ok' });
  const from = seen(failing);
  await onward.until('all that waited went out', async () => (await read(failing)).blockedRuns === 0 && seen(failing) >= from + 30, 60_000);
  const recovered = failing.requests().slice(from);
  const at = recovered.map((request) => Date.parse(request.at));
  // 20 a second is the pace; a second holds a few more when wake-ups that were late come together.
  expect(Math.max(...at.map((first) => at.filter((one) => one >= first && one < first + 1_000).length))).toBeLessThanOrEqual(30);
  await onward.api.must('POST', '/test/clock', { advance: '10m' });
  await onward.until('every run has succeeded', ended('failing'), 60_000);
  const [{ most } = { most: 0 }] = await onward.query<{ most: number }>(
    `SELECT max(failed)::int AS most FROM (SELECT count(*) FILTER (WHERE status = 'failed') AS failed FROM attempts JOIN runs ON runs.id = run_id WHERE event_id LIKE 'failing-%' GROUP BY run_id) counted`,
  );
  expect(most).toBeLessThanOrEqual(2);
});

test('answers that refuse the request never open the breaker', async () => {
  const { refusing } = targets;
  refusing.mode({ kind: 'status', status: 404 });
  await emit('refusing', 60);
  await onward.until('all have failed', async () => (await runsOf('refusing')).every(({ state }) => state === 'failed'), 60_000);
  expect(seen(refusing)).toBe(60);
  expect(await read(refusing)).toMatchObject({ state: 'closed', blockedRuns: 0 });
});

test('a target that hangs takes its share of the places and no more: calls to another go out at once', async () => {
  const { hanging, well } = targets;
  hanging.mode({ kind: 'hang' });
  well.mode({ kind: 'ok' });
  await emit('hanging', 700);
  await onward.until('it hangs', async () => seen(hanging) >= 30);
  await emit('well', 50);
  await onward.until('the fifty others have succeeded', ended('well'), 60_000);
  expect((await runsOf('hanging')).some(({ state }) => state === 'succeeded')).toBe(false);
  const { id } = await read(hanging);
  await onward.api.must('POST', `/targets/${id}/pause`);
  for (const run of await onward.query<{ id: string }>(`SELECT id FROM runs WHERE event_id LIKE 'hanging-%'`)) {
    await onward.api.call('POST', `/runs/${run.id}/cancel`);
  }
  hanging.mode({ kind: 'ok' });
});

test('F37: a target that answers 429 with Retry-After is left alone until then by every run, and other targets are not', { timeout: 180_000 }, async () => {
  const { asking, well } = targets;
  asking.mode((_request, nth) => (nth === 1 ? { kind: 'status', status: 429, headers: { 'retry-after': '120' } } : { kind: 'ok' }));
  await emit('asking', 1);
  await onward.until('it was asked to wait', async () => (await read(asking)).state === 'open');
  const wellBefore = seen(well);
  await emit('asking', 10, 1);
  await emit('well', 10, 1_000);
  await onward.until('the others have succeeded', ended('well'), 60_000);
  await onward.until('ten wait', async () => (await read(asking)).blockedRuns === 10);
  expect(seen(well) - wellBefore).toBe(10);
  expect(seen(asking)).toBe(1);
  const waits = await onward.query<{ inS: number }>(
    `SELECT extract(epoch FROM due_at - created_at)::float8 AS "inS" FROM runs WHERE event_id LIKE 'asking-%' AND state IN ('retrying', 'waiting')`,
  );
  expect(waits).toHaveLength(11);
  for (const { inS } of waits) expect(inS).toBeGreaterThan(100);
  await onward.api.must('POST', '/test/clock', { advance: '130s' });
  await onward.until('all have succeeded', ended('asking'), 60_000);
  expect(seen(asking)).toBe(12);
});

test('three workers keep to a rate together, also through a FLUSHALL', { timeout: 240_000 }, async () => {
  const { limited } = targets;
  const rate = 20;
  await onward.api.must('POST', '/targets', { origin: limited.url, ratePerSecond: rate });
  await emit('limited', 500);
  await onward.until('a hundred went out', async () => seen(limited) >= 100, 60_000);
  const valkey = new Redis(services.valkey().url);
  await valkey.flushall();
  valkey.disconnect();
  await onward.until('all went out', ended('limited'), 120_000);
  expect(seen(limited)).toBe(500);
  expect(busiest(limited, 10_000)).toBeLessThanOrEqual(rate * 10 * 1.1);
});

test('whatever the targets did, every history holds', async () => {
  const everybody = { ...onward, target: { ...onward.target, requests: () => Object.values(targets).flatMap((target) => [...target.requests()]) } };
  await onward.until('nobody is in hand', async () => (await onward.query(`SELECT 1 FROM runs WHERE state IN ('running', 'pending')`)).length === 0, 60_000);
  expect(await checkHistories(everybody)).toEqual([]);
});
