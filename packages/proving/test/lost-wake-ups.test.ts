import { afterAll, beforeAll, expect, test } from 'vitest';
import { install, type Installation } from '../src/installation.js';
import { line, onEvent, publish, tag } from '../src/journeys.js';

let onward: Installation;
beforeAll(async () => {
  onward = await install({
    postgresUrl: process.env['ONWARD_TEST_POSTGRES_URL'] ?? '',
    valkeyUrl: process.env['ONWARD_TEST_VALKEY_URL'] ?? '',
    env: { AUTOMATIONS_SWEEP_INTERVAL_MS: '5000' },
    // The first thing the queue would be told is the run's wake-up; every later one is told.
    failPoints: { backend: () => 'commit.before-enqueue:skip@1' },
  });
});
afterAll(() => onward?.close());

test('a run whose wake-up was lost right after the commit starts by itself', async () => {
  await publish(onward.api, 'short', line(onEvent('lost'), tag('a', 'a')));
  const sentAt = performance.now();
  const { runs } = (await onward.api.must('POST', '/events', { id: 'lost', type: 'lost', contact: { email: 'lost@example.test' } })) as {
    runs: { runId: string }[];
  };
  await onward.until('the run has ended', async () => (await onward.api.must('GET', `/runs/${runs[0]?.runId}`))['state'] === 'succeeded', 50_000);
  console.log(`started and ended after ${Math.round(performance.now() - sentAt)} ms without its wake-up`);
  expect(await onward.query(`SELECT 1 FROM attempts`)).toHaveLength(3);
});
