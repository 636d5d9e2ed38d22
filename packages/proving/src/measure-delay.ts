/**
 * Measures the usual delay from a trigger to its first step: HTTP POST of the event begun → first step begun (its attempt's `started_at`), at five
 * events a second, on a whole installation of real processes. Prints one line of figures in milliseconds.
 *
 *   node packages/proving/dist/measure-delay.js [events]
 *
 * Client, database and processes share one machine and so one clock.
 */
import { setTimeout as pause } from 'node:timers/promises';
import { startTestServices } from '@onward/stack/test-services';
import { install } from './installation.js';
import { line, onEvent, publish, tag } from './journeys.js';

const EVERY_MS = 200;
const WARM_UP = 10;
const count = Number(process.argv[2] ?? 60);

const services = await startTestServices();
const onward = await install({ ...services, env: { AUTOMATIONS_LEASE_MS: '30000', AUTOMATIONS_SWEEP_INTERVAL_MS: '5000', LOG_LEVEL: 'info' } });
try {
  await publish(onward.api, 'measured', line(onEvent('measured'), tag('a', 'a')), { reentry: 'always' });
  const begunAt = new Map<string, number>();
  for (let nth = 0; nth < WARM_UP + count; nth += 1) {
    const id = `m${nth}`;
    if (nth >= WARM_UP) begunAt.set(id, Date.now());
    await onward.api.must('POST', '/events', { id, type: 'measured', contact: { email: `${id}@example.test` } });
    await pause(EVERY_MS);
  }
  await onward.until('all have ended', async () => (await onward.query('SELECT 1 FROM runs WHERE ended_at IS NULL')).length === 0);
  const steps = await onward.query<{ event: string; startedAt: Date }>(
    `SELECT event_id AS event, started_at AS "startedAt" FROM runs JOIN attempts ON run_id = runs.id WHERE attempts.seq = 2`,
  );
  const delays = steps.flatMap(({ event, startedAt }) => (begunAt.has(event) ? [startedAt.getTime() - (begunAt.get(event) ?? 0)] : [])).sort((a, b) => a - b);
  const at = (share: number) => delays[Math.min(delays.length - 1, Math.floor(delays.length * share))];
  process.stdout.write(`trigger to first step, ${delays.length} events at 5/s: p50 ${at(0.5)} ms, p99 ${at(0.99)} ms, max ${delays.at(-1)} ms\n`);
} finally {
  await onward.close();
  await services.stop();
}
