import { setTimeout as pause } from 'node:timers/promises';
import pg from 'pg';
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import { checkHistories } from '../src/check-histories.js';
import { install, type Installation } from '../src/installation.js';
import { forward, line, onEvent, publish, tag } from '../src/journeys.js';
import { letAllEnd } from '../src/let-all-end.js';
import { type OwnServices, startOwnServices } from '../src/own-services.js';
import { scaled } from './scaled.js';
import { startTraffic } from '../src/send-events.js';

/**
 * Cases of F73: under 20 events a second Postgres ends all connections, stops, or takes nothing but reads. No process ends, the API answers 503 and
 * nothing else while nothing can be kept, and everything goes on by itself, with no event lost and no request sent twice.
 */
const PER_SECOND = 20;
const AWAY_MS = scaled(5_000, 60_000);
const READ_ONLY_MS = scaled(5_000, 30_000);
/** Before and after what is done to Postgres. */
const CALM_MS = 2_000;
const RECOVERED_WITHIN_MS = 15_000;

let services: OwnServices;
let onward: Installation;
let batch = 0;
beforeAll(async () => {
  services = await startOwnServices();
  onward = await install({ postgresUrl: services.postgres().url('postgres'), valkeyUrl: services.valkey().url, workers: 2 });
  await publish(onward.api, 'short', line(onEvent('short'), tag('a', 'a'), forward('call', `${onward.target.url}/call`), tag('b', 'b')));
  onward.target.mode({ kind: 'late', delayMs: 100 });
});
afterAll(async () => {
  await onward?.close();
  await services?.stop();
});
beforeEach(() => {
  batch += 1;
});

/** `outage` does its harm and returns when it is undone. */
async function underTraffic(outage: () => Promise<void>): Promise<void> {
  const { api, apis, query, processes, target } = onward;
  const traffic = startTraffic(apis, PER_SECOND, (nth) => ({ id: `b${batch}-${nth}`, type: 'short', contact: { email: `b${batch}-${nth}@example.test` } }));
  await pause(CALM_MS);
  await outage();
  const undoneAtMs = performance.now();
  await onward.until('the backend is ready', async () => (await api.ready()) === 200, 5 * RECOVERED_WITHIN_MS);
  await onward.until('an event is accepted', async () => (await api.call('POST', '/events', probe())).status === 201, 5 * RECOVERED_WITHIN_MS);
  console.log(`F73: accepted again ${Math.round(performance.now() - undoneAtMs)} ms after Postgres was`);
  await pause(CALM_MS);
  const sent = await traffic.stop();
  expect(sent.filter(({ isAccepted }) => !isAccepted)).toEqual([]);
  // Nothing but 503 ever came before an acceptance: no 500, no broken connection.
  expect(sent.flatMap(({ answers }) => answers).filter((status) => ![200, 201, 503].includes(status))).toEqual([]);
  await letAllEnd(onward, 90_000);
  const accepted = sent.length + 1;
  expect(await query(`SELECT state, count(*)::int FROM runs WHERE event_id LIKE $1 GROUP BY state`, [`b${batch}-%`])).toEqual([
    { state: 'succeeded', count: accepted },
  ]);
  expect(target.requests().filter(({ body }) => body.toString().includes(`"b${batch}-`))).toHaveLength(accepted);
  expect(Object.values(processes).map((one) => [one.name, one.countRestarts()])).toEqual(Object.values(processes).map((one) => [one.name, 0]));
  expect(await checkHistories(onward)).toEqual([]);
}

const probe = () => ({ id: `b${batch}-probe`, type: 'short', contact: { email: `b${batch}-probe@example.test` } });

/** Nothing is accepted, and the readiness probe says so, for as long as that lasts. */
async function nothingIsAccepted(forMs: number): Promise<void> {
  const until = performance.now() + forMs;
  for (let nth = 0; performance.now() < until; nth += 1) {
    const { status, body } = await onward.api.call('POST', '/events', { ...probe(), id: `b${batch}-refused-${nth}` });
    expect([status, body]).toMatchObject([503, { type: 'urn:onward:error:unavailable' }]);
    expect(await onward.api.ready()).toBe(503);
    await pause(200);
  }
}

test('F73: ending all connections of Postgres loses nothing and ends no process', async () => {
  await underTraffic(async () => {
    for (let times = 0; times < 3; times += 1) {
      await onward.query('SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()');
      await pause(300);
    }
  });
});

test(
  `F73: while Postgres is down for ${AWAY_MS / 1_000} s the API answers 503 alone, and everything goes on when it is back`,
  async () => {
    await underTraffic(() => services.withoutPostgres(() => nothingIsAccepted(AWAY_MS)));
  },
  scaled(180_000, 400_000),
);

test(
  `F73: while Postgres is read-only for ${READ_ONLY_MS / 1_000} s the API answers 503 alone, and everything goes on afterwards`,
  async () => {
    await underTraffic(async () => {
      await setReadOnly(true);
      await nothingIsAccepted(READ_ONLY_MS);
      await setReadOnly(false);
    });
  },
  scaled(180_000, 400_000),
);

/** For every session, those that stand included, as after a fail-over to a standby; resolves when the backend's have heard of it. */
async function setReadOnly(isReadOnly: boolean): Promise<void> {
  const client = new pg.Client(services.postgres().url('postgres'));
  await client.connect();
  try {
    await client.query('SET default_transaction_read_only = off');
    await client.query(isReadOnly ? 'ALTER SYSTEM SET default_transaction_read_only = on' : 'ALTER SYSTEM RESET default_transaction_read_only');
    await client.query('SELECT pg_reload_conf()');
  } finally {
    await client.end();
  }
  if (isReadOnly) await onward.until('the backend has heard of it', async () => (await onward.api.ready()) === 503);
}
