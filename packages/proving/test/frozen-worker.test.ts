import { test } from 'vitest';
import { checkHistories } from '../src/check-histories.js';
import { inFirstLives, install } from '../src/installation.js';
import { forward, line, onEvent, publish, tag } from '../src/journeys.js';
import { letAllEnd } from '../src/let-all-end.js';

/** A worker stands still for longer than its lease and goes on when another has its runs: whatever it had in hand is refused. */

const RUNS = 20;

test.concurrent("a worker that is frozen in the middle of its sends and thawed in the middle of its heir's changes nothing any more", async ({ expect }) => {
  const onward = await install({ postgresUrl: process.env['ONWARD_TEST_POSTGRES_URL'] ?? '', valkeyUrl: `${process.env['ONWARD_TEST_VALKEY_URL']}/1` });
  try {
    const { api, target, query } = onward;
    await publish(api, 'frozen', line(onEvent('frozen'), forward('call', `${target.url}/call`), tag('close', 'closed')));
    target.mode({ kind: 'late', delayMs: 2_000 });
    for (let nth = 1; nth <= RUNS; nth += 1) await api.must('POST', '/events', { id: `f${nth}`, type: 'frozen', contact: { email: `f${nth}@example.test` } });
    await target.waitFor((requests) => requests.length === RUNS);
    onward.process('worker-1').kill('SIGSTOP');
    await onward.addWorker();
    await onward.until('the heir has taken up all runs', async () => (await query(`SELECT 1 FROM runs WHERE state = 'retrying'`)).length === RUNS);
    await api.must('POST', '/test/clock', { advance: '10m' });
    // The heir sends in its turn, and its sends take long enough for the first one's answers to be recorded before, if they were taken.
    await target.waitFor((requests) => requests.length === 2 * RUNS, 60_000);
    onward.process('worker-1').kill('SIGCONT');
    await letAllEnd(onward);
    expect(await query('SELECT state, epoch >= 2 AS "isInherited", count(*)::int FROM runs GROUP BY 1, 2')).toEqual([
      { state: 'succeeded', isInherited: true, count: RUNS },
    ]);
    expect(await query(`SELECT n, status, count(*)::int FROM attempts WHERE node = 'call' GROUP BY 1, 2 ORDER BY 1`)).toEqual([
      { n: 1, status: 'uncertain', count: RUNS },
      { n: 2, status: 'done', count: RUNS },
    ]);
    expect(target.requests()).toHaveLength(2 * RUNS);
    expect(await checkHistories(onward)).toEqual([]);
  } finally {
    await onward.close();
  }
});

test.concurrent('a worker that is frozen right before its send sends nothing when it is thawed after its lease', async ({ expect }) => {
  const onward = await install({
    postgresUrl: process.env['ONWARD_TEST_POSTGRES_URL'] ?? '',
    valkeyUrl: `${process.env['ONWARD_TEST_VALKEY_URL']}/2`,
    failPoints: { 'worker-1': () => 'worker.before-send:freeze@1' },
  });
  try {
    const { api, target, query } = onward;
    await publish(api, 'frozen', line(onEvent('frozen'), forward('call', `${target.url}/call`), tag('close', 'closed')));
    await api.must('POST', '/events', { id: 'f1', type: 'frozen', contact: { email: 'f1@example.test' } });
    await onward.until('the run is in hand', async () => (await query(`SELECT 1 FROM attempts WHERE status = 'sending'`)).length === 1);
    await onward.addWorker();
    await letAllEnd(onward);
    expect(target.requests()).toHaveLength(1);
    onward.process('worker-1').kill('SIGCONT');
    // It lives again when it drives a run to its end; a send of the old one would have left before that.
    onward.process('worker-2').kill('SIGSTOP');
    await api.must('POST', '/events', { id: 'f2', type: 'frozen', contact: { email: 'f2@example.test' } });
    await letAllEnd(onward);
    onward.process('worker-2').kill('SIGCONT');
    expect(target.requests().filter(({ body }) => body.toString().includes('"f1@example.test"'))).toHaveLength(1);
    expect(await query('SELECT state, count(*)::int FROM runs GROUP BY 1')).toEqual([{ state: 'succeeded', count: 2 }]);
    expect(await checkHistories(onward)).toEqual([]);
  } finally {
    await onward.close();
  }
});

/** Killed this often, a step is not yet poison: that is at 25. */
const KILLS = 20;

test.concurrent(`a run whose worker is killed ${KILLS} times outside a send completes, and has spent no attempt`, async ({ expect }) => {
  const onward = await install({
    postgresUrl: process.env['ONWARD_TEST_POSTGRES_URL'] ?? '',
    valkeyUrl: `${process.env['ONWARD_TEST_VALKEY_URL']}/3`,
    env: { AUTOMATIONS_LEASE_MS: '1000', AUTOMATIONS_SWEEP_INTERVAL_MS: '300' },
    failPoints: { 'worker-1': inFirstLives(KILLS, 'worker.before-record:kill9') },
  });
  try {
    const { api, query } = onward;
    // A step that fails comes back to the worker to be judged; what goes well the backend goes through by itself.
    const { nodes, edges } = line(onEvent('killed'), tag('mark', 'marked'), tag('broken', '{{ contact.attributes.nobody.has }}'), tag('close', 'closed'));
    await publish(api, 'killed', { nodes, edges: [...edges, { from: 'broken', port: 'failed', to: 'close' }] });
    await api.must('POST', '/events', { id: 'k1', type: 'killed', contact: { email: 'k1@example.test' } });
    await letAllEnd(onward, 110_000);
    expect(onward.process('worker-1').countRestarts()).toBe(KILLS);
    expect(await query('SELECT state, epoch FROM runs')).toEqual([{ state: 'succeeded', epoch: KILLS + 1 }]);
    expect(await query('SELECT n, status, count(*)::int FROM attempts GROUP BY 1, 2 ORDER BY status')).toEqual([
      { n: 1, status: 'done', count: 4 },
      { n: 1, status: 'failed', count: 1 },
    ]);
    expect(await checkHistories(onward)).toEqual([]);
  } finally {
    await onward.close();
  }
});
