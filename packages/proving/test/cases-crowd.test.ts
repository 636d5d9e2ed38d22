import { startWebhookSink, type WebhookSink } from '@onward/stack/webhook-sink';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { checkHistories } from '../src/check-histories.js';
import { install, type Installation } from '../src/installation.js';
import { forward, line, onEvent, publish } from '../src/journeys.js';

/**
 * A send holds its place in a worker until it has ended. As many hang here as one target gets places, a quarter of AUTOMATIONS_WORKER_CONCURRENCY
 * (200 unless set); what more of them would come to is asked in targets.test.ts.
 */
const CROWD = 50;
const TIMEOUT_MS = 5_000;

let onward: Installation;
let other: WebhookSink;
beforeAll(async () => {
  other = await startWebhookSink();
  onward = await install({
    postgresUrl: process.env['ONWARD_TEST_POSTGRES_URL'] ?? '',
    valkeyUrl: process.env['ONWARD_TEST_VALKEY_URL'] ?? '',
    env: { EGRESS_ALLOW: '127.0.0.1' },
  });
});
afterAll(async () => {
  await onward?.close();
  await other?.stop();
});

test('F38: 50 runs to a target that never answers do not delay a 51st run to another target, and leave no connection open', async () => {
  const { api, target, query } = onward;
  await publish(api, 'hangs', line(onEvent('hangs'), forward('call', `${target.url}/hangs`, { timeoutMs: TIMEOUT_MS })));
  await publish(api, 'answers', line(onEvent('answers'), forward('call', `${other.url}/answers`)));
  target.mode({ kind: 'hang' });
  const emit = (id: string, type: string) => api.must('POST', '/events', { id, type, contact: { email: `${id}@example.test` } });
  await Promise.all(Array.from({ length: CROWD }, (_, nth) => emit(`hangs-${nth}`, 'hangs')));
  await target.waitFor((requests) => requests.length === CROWD);
  await emit('answers', 'answers');
  const isOver = async () => (await query(`SELECT 1 FROM runs WHERE event_id = 'answers' AND state = 'succeeded'`)).length === 1;
  await onward.until('the 51st run has ended', isOver);
  // All of them still hang: it has waited for none.
  expect(await target.countConnections()).toBe(CROWD);

  await onward.until('every other run has failed once', async () => (await query(`SELECT 1 FROM runs WHERE state = 'retrying'`)).length === CROWD);
  const failed = await query<{ code: string; lastedMs: number }>(
    `SELECT failure ->> 'code' AS code, (extract(epoch FROM ended_at - started_at) * 1000)::int AS "lastedMs" FROM attempts WHERE status = 'failed'`,
  );
  expect(failed.map(({ code }) => code)).toEqual(Array.from({ length: CROWD }, () => 'timeout'));
  expect(Math.min(...failed.map(({ lastedMs }) => lastedMs))).toBeGreaterThanOrEqual(TIMEOUT_MS);
  await onward.until('no connection is open', async () => (await target.countConnections()) === 0, 5_000);
  expect(await checkHistories(onward)).toEqual([]);
});
