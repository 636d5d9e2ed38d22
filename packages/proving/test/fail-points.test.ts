import { test } from 'vitest';
import { checkHistories } from '../src/check-histories.js';
import { install } from '../src/installation.js';
import { forward, line, mailTo, makeTemplate, onEvent, publish, tag, wait } from '../src/journeys.js';
import { letAllEnd } from '../src/let-all-end.js';

/**
 * A process is killed at one named place, in its first life alone, while runs tag, call, mail, wait and end. Each time every run ends
 * succeeded, with a history that replays, and target and mail server saw no more than the record allows.
 *
 * Some installations run at a time, since most of each is waiting for a lease to lapse; each has its own database of the one Valkey.
 */
const FAIL_POINTS = [
  { process: 'backend', failPoint: 'frame.before-commit:kill9@5', valkey: 1, runs: 10 },
  { process: 'worker-1', failPoint: 'worker.before-send:kill9@3', valkey: 2, runs: 10 },
  { process: 'gateway', failPoint: 'mail.before-smtp:kill9@2', valkey: 3, runs: 10 },
  { process: 'backend', failPoint: 'frame.after-commit:kill9@5', valkey: 4, runs: 10 },
  { process: 'worker-1', failPoint: 'worker.after-send:kill9@3', valkey: 5, runs: 10 },
  { process: 'gateway', failPoint: 'mail.after-smtp:kill9@2', valkey: 6, runs: 10 },
  { process: 'backend', failPoint: 'commit.before-enqueue:kill9@5', valkey: 7, runs: 10 },
  { process: 'worker-1', failPoint: 'worker.before-record:kill9@3', valkey: 8, runs: 10 },
  { process: 'backend', failPoint: 'action.after-effect:kill9@5', valkey: 9, runs: 10 },
  { process: 'backend', failPoint: 'event.after-insert:kill9@3', valkey: 10, runs: 10 },
  // A run that is alone sends its frames in order: the first begins it, the second asks for the plan, the third closes a step and begins the next.
  { process: 'backend', failPoint: 'frame.after-commit:kill9@1', valkey: 11, runs: 1 },
  { process: 'backend', failPoint: 'frame.before-commit:kill9@3', valkey: 12, runs: 1 },
  { process: 'backend', failPoint: 'frame.after-commit:kill9@3', valkey: 13, runs: 1 },
] as const;

for (const { process: killed, failPoint, valkey, runs } of FAIL_POINTS) {
  test.concurrent(`a kill -9 of ${killed} at ${failPoint} changes nothing about how ${runs} run${runs > 1 ? 's' : ''} end${runs > 1 ? '' : 's'}`, async ({
    expect,
  }) => {
    const onward = await install({
      postgresUrl: process.env['ONWARD_TEST_POSTGRES_URL'] ?? '',
      valkeyUrl: `${process.env['ONWARD_TEST_VALKEY_URL']}/${valkey}`,
      failPointsOfFirstLife: { [killed]: failPoint },
    });
    try {
      const { api, target, until, query } = onward;
      await makeTemplate(api, 'hello');
      const call = forward('call', `${target.url}/orders`);
      const journey = line(onEvent('order.paid'), tag('mark', 'buyer'), call, mailTo('greet', 'hello'), wait('rest', '1h'), tag('close', 'closed'));
      await publish(api, 'killed at a fail point', journey);
      expect(onward.processes[killed]?.countRestarts()).toBe(0);
      for (let nth = 1; nth <= runs; nth += 1) {
        const event = { id: `e${nth}`, type: 'order.paid', contact: { email: `e${nth}@example.test`, attributes: { name: `e${nth}` } } };
        // A client that got no answer sends the same event again.
        await until(`the event ${event.id} is accepted`, async () => (await api.call('POST', '/events', event)).status < 300);
      }
      await letAllEnd(onward);
      expect(onward.lines.filter((line) => line.includes('was ended by SIGKILL'))).toHaveLength(1);
      expect(onward.processes[killed]?.countRestarts()).toBe(1);
      expect(await query('SELECT state, count(*)::int FROM runs GROUP BY state')).toEqual([{ state: 'succeeded', count: runs }]);
      expect(await checkHistories(onward)).toEqual([]);
    } finally {
      await onward.close();
    }
  });
}
