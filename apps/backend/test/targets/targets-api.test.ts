import { FRAME_PATTERN } from '@onward/contracts/frame';
import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type BackendForTest, backendForTest } from '../backend-for-test.js';
import { HandWorker } from '../runtime/hand-worker.js';
import { BY_HAND } from '../sweeper/sweeper-bench.js';
import { beginRuns, callingAt, newOrigin, operate, targetAt } from './target-bench.js';

let onward: BackendForTest;
let worker: HandWorker;
beforeAll(async () => {
  onward = await backendForTest({ ...BY_HAND, AUTOMATIONS_LEASE_MS: '60000' });
  worker = new HandWorker(onward);
});
afterAll(async () => {
  worker?.close();
  await onward?.close();
});

type Shown = { id: string; origin: string; state: string; ratePerSecond: number | null; maxConcurrent: number | null; blockedRuns: number; workers: object[] };
type Page = { items: Shown[]; nextCursor: string | null };
type Refusal = { errors?: { path: string }[] };

test.each([
  ['https://API.example.test', 'https://api.example.test'],
  ['https://api2.example.test:443/', 'https://api2.example.test'],
  ['HTTP://[::1]:8080', 'http://[::1]:8080'],
  ['https://bücher.example.test', 'https://xn--bcher-kva.example.test'],
])('%s is named as %s', async (written, origin) => {
  const made = await onward.api<Shown>('POST', '/targets', { origin: written, ratePerSecond: 2.5 });
  expect(made.status).toBe(201);
  expect(made.body).toMatchObject({
    origin,
    state: 'closed',
    why: null,
    blockedUntil: null,
    ratePerSecond: 2.5,
    maxConcurrent: null,
    blockedRuns: 0,
    workers: [],
  });
  expect((await onward.api<Shown>('GET', `/targets/${made.body.id}`)).body).toEqual(made.body);
  expect(await onward.api<Refusal>('POST', '/targets', { origin })).toMatchObject({ status: 409, body: { errors: [{ path: 'origin' }] } });
});

test.each([
  '',
  'api.example.test',
  'ftp://example.test',
  'https://',
  'https://a.test/path',
  'https://a.test/?q',
  'https://u:p@a.test',
  'https://a.test/#x',
  'https://a.test/?',
  'https://a.test/#',
  7,
  null,
])('%j is no origin, and the refusal names the field', async (origin) => {
  expect(await onward.api<Refusal>('POST', '/targets', { origin })).toMatchObject({ status: 400, body: { errors: [{ path: 'origin' }] } });
});

test.each<[body: Record<string, unknown>, path: string]>([
  [{ ratePerSecond: 0 }, 'ratePerSecond'],
  [{ ratePerSecond: -1 }, 'ratePerSecond'],
  [{ ratePerSecond: '5' }, 'ratePerSecond'],
  [{ ratePerSecond: 1e300 }, 'ratePerSecond'],
  [{ maxConcurrent: 0 }, 'maxConcurrent'],
  [{ maxConcurrent: 1.5 }, 'maxConcurrent'],
  [{ state: 'closed' }, 'state'],
])('%j is refused, naming the field', async (body, path) => {
  const origin = newOrigin();
  expect(await onward.api<Refusal>('POST', '/targets', { origin, ...body })).toMatchObject({ status: 400, body: { errors: [{ path }] } });
  await operate(onward, origin, 'close');
  const { id } = await targetAt(onward, origin);
  expect(await onward.api<Refusal>('PATCH', `/targets/${id}`, body)).toMatchObject({ status: 400, body: { errors: [{ path }] } });
});

test('limits are changed one by one, taken away with null, and travel with the next request handed over', async () => {
  const origin = newOrigin();
  const workflowId = await callingAt(onward, origin);
  await beginRuns(onward, worker, workflowId, 1);
  const { id } = await targetAt(onward, origin);
  const limit = async (body: object) => (await onward.api<Shown>('PATCH', `/targets/${id}`, body)).body;
  expect(await limit({ ratePerSecond: 5 })).toMatchObject({ ratePerSecond: 5, maxConcurrent: null });
  expect(await limit({ maxConcurrent: 3 })).toMatchObject({ ratePerSecond: 5, maxConcurrent: 3 });
  const [run] = await beginRuns(onward, worker, workflowId, 1);
  expect(run?.last).toMatchObject({ kind: 'send', target: { origin, ratePerSecond: 5, maxConcurrent: 3, breakerNo: 0 } });
  expect(await limit({ ratePerSecond: null })).toMatchObject({ ratePerSecond: null, maxConcurrent: 3 });
  expect(await limit({})).toMatchObject({ ratePerSecond: null, maxConcurrent: 3 });
});

test('a target that is not there is 404, an id that is none is 400 and names it', async () => {
  for (const path of ['', '/open', '/close', '/pause']) {
    const method = path === '' ? 'GET' : 'POST';
    expect((await onward.api(method, `/targets/${randomUUID()}${path}`)).status).toBe(404);
    expect(await onward.api<Refusal>(method, `/targets/x${path}`)).toMatchObject({ status: 400, body: { errors: [{ path: 'id' }] } });
  }
  expect((await onward.api('PATCH', `/targets/${randomUUID()}`, { ratePerSecond: 1 })).status).toBe(404);
});

test('the list is given in pages, the newest first, each target once', async () => {
  const origins = [newOrigin(), newOrigin(), newOrigin()];
  for (const origin of origins) await onward.api('POST', '/targets', { origin });
  const seen: string[] = [];
  let cursor: string | null = null;
  do {
    const page: { body: Page } = await onward.api<Page>('GET', `/targets?limit=2${cursor === null ? '' : `&cursor=${cursor}`}`);
    seen.push(...page.body.items.map(({ origin }) => origin));
    cursor = page.body.nextCursor;
  } while (cursor !== null);
  expect(seen.slice(0, 3)).toEqual([...origins].reverse());
  expect(new Set(seen).size).toBe(seen.length);
  expect(await onward.api<Refusal>('GET', '/targets?cursor=x')).toMatchObject({ status: 400, body: { errors: [{ path: 'cursor' }] } });
});

test('a target says how many runs wait for it and how each worker finds it; the runs are listed by its origin', async () => {
  const [origin, other] = [newOrigin(), newOrigin()];
  const workflowId = await callingAt(onward, origin);
  await operate(onward, origin, 'open');
  await operate(onward, other, 'open');
  const parked = await beginRuns(onward, worker, workflowId, 2);
  await beginRuns(onward, worker, await callingAt(onward, other), 1);
  const workerId = randomUUID();
  const found = { breaker: 'half_open' as const, sending: 1, queued: 4, probesInMs: null };
  const say = (targets: object[]) => worker.client.call(FRAME_PATTERN, { v: 1, worker: { workerId, inFlight: 5, targets: targets as [] }, runs: [] });
  await say([{ origin, breakerNo: 0, ...found }]);
  const { id } = await targetAt(onward, origin);
  expect((await onward.api<Shown>('GET', `/targets/${id}`)).body).toMatchObject({ state: 'open', blockedRuns: 2, workers: [{ workerId, ...found }] });
  await say([]);
  expect((await onward.api<Shown>('GET', `/targets/${id}`)).body).toMatchObject({ workers: [] });

  const listed = await onward.api<{ items: { id: string }[] }>('GET', `/runs?target=${encodeURIComponent(`${origin.toUpperCase()}/`)}`);
  expect(listed.body.items.map((run) => run.id).sort()).toEqual(parked.map(({ runId }) => runId).sort());
  await onward.api('POST', `/runs/${parked[0]?.runId}/cancel`);
  expect((await onward.api<{ items: object[] }>('GET', `/runs?target=${encodeURIComponent(origin)}`)).body.items).toHaveLength(1);
  expect(await onward.api<Refusal>('GET', '/runs?target=nowhere')).toMatchObject({ status: 400, body: { errors: [{ path: 'target' }] } });
});
