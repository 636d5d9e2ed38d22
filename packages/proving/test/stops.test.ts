import type { WebhookSinkMode } from '@onward/stack/webhook-sink';
import { expect as assert, test } from 'vitest';
import { checkHistories } from '../src/check-histories.js';
import { install, type Installation } from '../src/installation.js';
import { forward, line, onEvent, publish, tag } from '../src/journeys.js';
import { letAllEnd } from '../src/let-all-end.js';
import { startTraffic } from '../src/send-events.js';
import { stopProcess } from '../src/stop-process.js';

/**
 * F69: the worker of 50 runs that are inside a slow request is stopped or killed while 20 other events a second come in. A stop lets sends in
 * flight end, for 10 s at most, and takes no more than 20 s in all.
 */
const RUNS = 50;
const PER_SECOND = 20;
const SLOW_MS = 4_000;
const GRACE_MS = 20_000;

/** `disturb` is called when the target has all requests, and the events go on until it has ended; everything then ends and is checked. */
async function disturbed(
  valkey: number,
  slow: WebhookSinkMode,
  disturb: (onward: Installation) => Promise<void>,
  then: (onward: Installation) => Promise<void>,
): Promise<void> {
  const onward = await install({ postgresUrl: process.env['ONWARD_TEST_POSTGRES_URL'] ?? '', valkeyUrl: `${process.env['ONWARD_TEST_VALKEY_URL']}/${valkey}` });
  try {
    const { api, apis, target, query } = onward;
    await publish(api, 'slow', line(onEvent('slow'), forward('call', `${target.url}/slow`), tag('close', 'closed')));
    await publish(api, 'quick', line(onEvent('quick'), tag('close', 'closed')));
    target.mode(slow);
    await Promise.all(
      Array.from({ length: RUNS }, (_, nth) =>
        api.must('POST', '/events', { id: `slow-${nth}`, type: 'slow', contact: { email: `slow-${nth}@example.test` } }),
      ),
    );
    await target.waitFor((requests) => requests.length === RUNS, 60_000);
    const traffic = startTraffic(apis, PER_SECOND, (nth) => ({ id: `quick-${nth}`, type: 'quick', contact: { email: `quick-${nth}@example.test` } }));
    await disturb(onward);
    const sent = await traffic.stop();
    assert(sent.filter(({ isAccepted }) => !isAccepted)).toEqual([]);
    await letAllEnd(onward, 90_000);
    assert(await query('SELECT state, count(*)::int FROM runs GROUP BY state')).toEqual([{ state: 'succeeded', count: RUNS + sent.length }]);
    await then(onward);
    assert(await checkHistories(onward)).toEqual([]);
  } finally {
    await onward.close();
  }
}

const attemptsAtTarget = ({ query }: Installation) =>
  query<{ n: number; status: string; count: number }>(`SELECT n, status, count(*)::int FROM attempts WHERE node = 'call' GROUP BY 1, 2 ORDER BY 1, 2`);

test.concurrent('F69a: a stopped worker takes no more, lets its sends end and goes in time; no send is repeated and no event lost', () =>
  disturbed(
    1,
    { kind: 'late', delayMs: SLOW_MS },
    async (onward) => {
      const { tookMs, how } = await stopProcess(onward, 'worker-1');
      assert(how).toBe('exited with code 0');
      assert(tookMs).toBeLessThan(GRACE_MS);
    },
    async (onward) => {
      assert(await attemptsAtTarget(onward)).toEqual([{ n: 1, status: 'done', count: RUNS }]);
      assert(onward.target.requests()).toHaveLength(RUNS);
    },
  ));

test.concurrent('F69b: of a killed worker every send is uncertain and repeated once under its key, and no event is lost', () =>
  disturbed(
    2,
    { kind: 'late', delayMs: SLOW_MS },
    async (onward) => {
      onward.process('worker-1').kill('SIGKILL');
      // Nobody stays in the hands of the dead for longer than a lease and a sweep.
      const left = `SELECT 1 FROM runs WHERE state = 'running' AND event_id LIKE 'slow-%'`;
      await onward.until('none of its runs is running any more', async () => (await onward.query(left)).length === 0, 36_000);
    },
    async (onward) => {
      assert(await attemptsAtTarget(onward)).toEqual([
        { n: 1, status: 'uncertain', count: RUNS },
        { n: 2, status: 'done', count: RUNS },
      ]);
    },
  ));

test.concurrent('F69c: what the target answers while the worker stops is recorded: a 500 is a failed attempt, tried again by another', () =>
  disturbed(
    3,
    { kind: 'late', delayMs: SLOW_MS, status: 500 },
    async (onward) => {
      onward.target.mode({ kind: 'ok' });
      const { how } = await stopProcess(onward, 'worker-1');
      assert(how).toBe('exited with code 0');
    },
    async (onward) => {
      assert(await attemptsAtTarget(onward)).toEqual([
        { n: 1, status: 'failed', count: RUNS },
        { n: 2, status: 'done', count: RUNS },
      ]);
    },
  ));
