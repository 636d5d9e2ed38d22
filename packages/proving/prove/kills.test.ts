import { afterEach, beforeEach, expect, test } from 'vitest';
import { checkHistories } from '../src/check-histories.js';
import { KILLINGS } from '../src/fail-point-table.js';
import { inFirstLives, install, type Installation } from '../src/installation.js';
import { forward, line, mailTo, makeTemplate, onEvent, publish, tag, wait } from '../src/journeys.js';
import { letAllEnd } from '../src/let-all-end.js';
import { type OwnServices, startOwnServices } from '../src/own-services.js';
import { startTraffic } from '../src/send-events.js';

/**
 * The grid: every fail point under load, of each process that reaches it, hit several times over. 20 events a second come in through two backends, three
 * workers drive, and every process of the kind is killed at the point in each of its first lives.
 */
const LIVES = 3;
const PER_SECOND = 20;
const LOAD_MS = 30_000;
const NAMES = { backend: ['backend-1', 'backend-2'], worker: ['worker-1', 'worker-2', 'worker-3'], gateway: ['gateway'] };

let services: OwnServices;
let onward: Installation | undefined;
beforeEach(async () => {
  services = await startOwnServices();
});
afterEach(async () => {
  await onward?.close();
  onward = undefined;
  await services.stop();
});

for (const { process: kind, failPoint } of KILLINGS) {
  // Late enough for a life to do some work, early enough for each to come to it.
  for (const at of [1, 20]) {
    test(`under load, ${LIVES} kills of every ${kind} at the ${at}. ${failPoint} change nothing about how runs end`, { timeout: 600_000 }, async () => {
      const points = Object.fromEntries(NAMES[kind].map((name) => [name, inFirstLives(LIVES, `${failPoint}:kill9@${at}`)]));
      onward = await install({
        postgresUrl: services.postgres().url('postgres'),
        valkeyUrl: services.valkey().url,
        backends: 2,
        workers: 3,
        failPoints: points,
      });
      const { api, apis, target, query } = onward;
      await makeTemplate(api, 'hello');
      const call = forward('call', `${target.url}/orders`);
      const journey = line(onEvent('order.paid'), tag('mark', 'buyer'), call, mailTo('greet', 'hello'), wait('rest', '1h'), tag('close', 'closed'));
      await publish(api, 'killed under load', journey, { reentry: 'always' });
      target.mode({ kind: 'late', delayMs: 200 });
      const traffic = startTraffic(apis, PER_SECOND, (nth) => ({
        id: `e${nth}`,
        type: 'order.paid',
        contact: { email: `e${nth}@example.test`, attributes: { name: `e${nth}` } },
      }));
      const loadedAtMs = performance.now();
      await onward.until('the load is over', async () => performance.now() - loadedAtMs > LOAD_MS, 2 * LOAD_MS);
      const sent = await traffic.stop();
      expect(sent.filter(({ isAccepted }) => !isAccepted)).toEqual([]);
      await letAllEnd(onward, 400_000);
      const restarts = NAMES[kind].map((name) => onward?.process(name).countRestarts() ?? 0);
      expect(restarts.reduce((sum, count) => sum + count, 0)).toBeGreaterThan(0);
      const states = await query<{ state: string; count: number }>('SELECT state, count(*)::int FROM runs GROUP BY state');
      expect(states).toEqual([{ state: 'succeeded', count: sent.length }]);
      expect(await checkHistories(onward)).toEqual([]);
      process.stdout.write(`${failPoint}@${at}: ${sent.length} runs, killed ${restarts.join(', ')} times\n`);
    });
  }
}
