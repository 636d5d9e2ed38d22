import { test } from 'vitest';
import { checkHistories } from '../src/check-histories.js';
import { KILLINGS } from '../src/fail-point-table.js';
import { inFirstLives, install } from '../src/installation.js';
import { forward, line, mailTo, makeTemplate, onEvent, publish, tag, wait } from '../src/journeys.js';
import { letAllEnd } from '../src/let-all-end.js';
import { sendEvent } from '../src/send-events.js';

/**
 * A process is killed at one named place, in its first life alone, while runs tag, call, mail, wait and end. Each time every run ends
 * succeeded, with a history that replays, and target and mail server saw no more than the record allows.
 *
 * Some installations run at a time, since most of each is waiting for a lease to lapse; each has a database of the one Valkey to itself.
 */
const CASES = [
  ...KILLINGS.map(({ process, failPoint, at }) => ({ killed: process === 'worker' ? 'worker-1' : process, failPoint: `${failPoint}:kill9@${at}`, runs: 10 })),
  // A run that is alone sends its frames in order: the first begins it, the second asks for the plan, the third closes a step and begins the next.
  { killed: 'backend', failPoint: 'frame.after-commit:kill9@1', runs: 1 },
  { killed: 'backend', failPoint: 'frame.before-commit:kill9@3', runs: 1 },
  { killed: 'backend', failPoint: 'frame.after-commit:kill9@3', runs: 1 },
];

const freeValkeys = Array.from({ length: 15 }, (_, index) => index + 1);

for (const { killed, failPoint, runs } of CASES) {
  test.concurrent(`a kill -9 of ${killed} at ${failPoint} changes nothing about how ${runs} run${runs > 1 ? 's' : ''} end${runs > 1 ? '' : 's'}`, async ({
    expect,
  }) => {
    const valkey = freeValkeys.shift() ?? 0;
    const onward = await install({
      postgresUrl: process.env['ONWARD_TEST_POSTGRES_URL'] ?? '',
      valkeyUrl: `${process.env['ONWARD_TEST_VALKEY_URL']}/${valkey}`,
      failPoints: { [killed]: inFirstLives(1, failPoint) },
    });
    try {
      const { api, apis, target, query } = onward;
      await makeTemplate(api, 'hello');
      const call = forward('call', `${target.url}/orders`);
      const journey = line(onEvent('order.paid'), tag('mark', 'buyer'), call, mailTo('greet', 'hello'), wait('rest', '1h'), tag('close', 'closed'));
      await publish(api, 'killed at a fail point', journey);
      expect(onward.process(killed).countRestarts()).toBe(0);
      for (let nth = 1; nth <= runs; nth += 1) {
        // A client that got no answer sends the same event again.
        await sendEvent(apis, { id: `e${nth}`, type: 'order.paid', contact: { email: `e${nth}@example.test`, attributes: { name: `e${nth}` } } });
      }
      await letAllEnd(onward, 90_000);
      expect(onward.lines.filter((line) => line.includes('was ended by SIGKILL'))).toHaveLength(1);
      expect(onward.process(killed).countRestarts()).toBe(1);
      expect(await query('SELECT state, count(*)::int FROM runs GROUP BY state')).toEqual([{ state: 'succeeded', count: runs }]);
      expect(await checkHistories(onward)).toEqual([]);
    } finally {
      await onward.close();
      freeValkeys.push(valkey);
    }
  });
}
