import { setTimeout as pause } from 'node:timers/promises';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { checkHistories } from '../src/check-histories.js';
import { install, type Installation } from '../src/installation.js';
import { forward, line, mailTo, makeTemplate, onEvent, publish, tag, wait } from '../src/journeys.js';
import { letAllEnd } from '../src/let-all-end.js';
import { scaled } from './scaled.js';
import { startTraffic } from '../src/send-events.js';
import { stopProcess } from '../src/stop-process.js';

/** Three workers and two backends share the work, while events come in through both backends. */

const PER_SECOND = 20;
const CALM_MS = scaled(5_000, 60_000);
/** No process gives itself longer than this to end. */
const GRACE_MS = 30_000;

let onward: Installation;
beforeAll(async () => {
  onward = await install({
    postgresUrl: process.env['ONWARD_TEST_POSTGRES_URL'] ?? '',
    valkeyUrl: process.env['ONWARD_TEST_VALKEY_URL'] ?? '',
    backends: 2,
    workers: 3,
  });
});
afterAll(() => onward?.close());

test(
  'a rolling restart of every process under load loses no event, fails no call of a client that tries again, and sends no more than is recorded',
  async () => {
    const { api, apis, target, query, processes } = onward;
    await makeTemplate(api, 'hello');
    const call = forward('call', `${target.url}/orders`);
    await publish(api, 'loaded', line(onEvent('order.paid'), tag('mark', 'buyer'), call, mailTo('greet', 'hello'), wait('rest', '1h'), tag('close', 'closed')));
    target.mode({ kind: 'late', delayMs: 200 });
    const traffic = startTraffic(apis, PER_SECOND, (nth) => ({
      id: `e${nth}`,
      type: 'order.paid',
      contact: { email: `e${nth}@example.test`, attributes: { name: `e${nth}` } },
    }));
    await pause(CALM_MS);
    const stops = [];
    for (const name of Object.keys(processes)) {
      const { tookMs, how } = await stopProcess(onward, name);
      stops.push({ name, how, isInTime: tookMs < GRACE_MS });
      // The next one goes when this one does its work again.
      for (const one of apis) await onward.until('the backend is ready', async () => (await one.ready()) === 200, 60_000);
    }
    await pause(CALM_MS);
    const sent = await traffic.stop();
    expect(stops).toEqual(Object.keys(processes).map((name) => ({ name, how: 'exited with code 0', isInTime: true })));
    expect(sent.filter(({ isAccepted }) => !isAccepted)).toEqual([]);
    expect(sent.flatMap(({ answers }) => answers).filter((status) => ![0, 200, 201, 503].includes(status))).toEqual([]);
    await letAllEnd(onward, scaled(120_000, 400_000));
    expect(await query('SELECT state, count(*)::int FROM runs GROUP BY state')).toEqual([{ state: 'succeeded', count: sent.length }]);
    // More only where a lease lapsed while its backend was away; each of them has its attempt, which is checked with the histories.
    expect(target.requests().length).toBeGreaterThanOrEqual(sent.length);
    expect(onward.mail.messages().length).toBeGreaterThanOrEqual(sent.length);
    expect(await checkHistories(onward)).toEqual([]);
    console.log(`${sent.length} events, ${sent.filter(({ answers }) => answers.length > 1).length} of them sent more than once`);
  },
  scaled(300_000, 900_000),
);
