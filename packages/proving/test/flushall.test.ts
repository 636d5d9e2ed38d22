import { startWebhookSink, type WebhookSink } from '@onward/stack/webhook-sink';
import { Redis } from 'ioredis';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { checkHistories } from '../src/check-histories.js';
import { install, type Installation } from '../src/installation.js';
import { forward, line, mailTo, makeTemplate, onEvent, publish, tag, wait } from '../src/journeys.js';
import { letAllEnd } from '../src/let-all-end.js';
import { type OwnServices, startOwnServices } from '../src/own-services.js';
import { scaled } from './scaled.js';
import { sendEvent } from '../src/send-events.js';

/** Runs in each state that the queue could know of, or that it must not touch. */
const EACH = scaled(20, 200);

let services: OwnServices;
let onward: Installation;
/** Another target than the installation's own, for runs that must not call it yet. */
let blocked: WebhookSink;
beforeAll(async () => {
  services = await startOwnServices();
  blocked = await startWebhookSink();
  onward = await install({
    postgresUrl: services.postgres().url('postgres'),
    valkeyUrl: services.valkey().url,
    // One target gets a quarter of the places at most; nothing lapses while the worker stands still.
    env: { AUTOMATIONS_WORKER_CONCURRENCY: String(4 * EACH), AUTOMATIONS_LEASE_MS: '30000', EGRESS_ALLOW: '127.0.0.1' },
  });
});
afterAll(async () => {
  await onward?.close();
  await blocked?.stop();
  await services?.stop();
});

/** Sends the event of `count` contacts of its own and answers the ids of the runs it started, once each is as `state` says. */
async function emit(type: string, state?: string, count = EACH): Promise<string[]> {
  for (let nth = 0; nth < count; nth += 1) {
    const id = `${type}-${nth}`;
    await sendEvent(onward.apis, { id, type, contact: { email: `${id}@example.test`, attributes: { name: id } } });
  }
  const runs = () =>
    onward.query<{ id: string }>(`SELECT id FROM runs WHERE event_id LIKE $1 AND ($2::text IS NULL OR state = $2)`, [`${type}-%`, state ?? null]);
  await onward.until(`every run of ${type} is ${state ?? 'there'}`, async () => (await runs()).length === count, 60_000);
  return (await runs()).map(({ id }) => id);
}

const countStates = () =>
  onward.query<{ state: string; count: number }>(
    `SELECT CASE WHEN is_held THEN 'held' WHEN state = 'waiting' THEN 'waiting for ' || wait_reason WHEN state = 'running' AND EXISTS
       (SELECT 1 FROM attempts WHERE run_id = runs.id AND attempts.status = 'sending') THEN 'in flight' ELSE state END AS state, count(*)::int
     FROM runs GROUP BY 1 ORDER BY 1`,
  );

test(
  'FLUSHALL with runs in every state costs only latency',
  async () => {
    const { api, mail, target, query } = onward;
    await makeTemplate(api, 'hello');
    const call = (path: string) => forward('call', `${target.url}/${path}`);
    await publish(api, 'dies', line(onEvent('dies'), mailTo('greet', 'hello')));
    await publish(api, 'fails', line(onEvent('fails'), call('fails')));
    await publish(api, 'ends', line(onEvent('ends'), tag('a', 'a')));
    await publish(api, 'cancelled', line(onEvent('cancelled'), wait('rest', '30d')));
    const held = await publish(api, 'held', line(onEvent('held'), wait('rest', '10m'), tag('a', 'a')));
    await publish(api, 'waits', line(onEvent('waits'), wait('rest', '1h'), tag('a', 'a')));
    await publish(api, 'mails', line(onEvent('mails'), mailTo('greet', 'hello'), tag('a', 'a')));
    await publish(api, 'retries', line(onEvent('retries'), mailTo('greet', 'hello'), tag('a', 'a')));
    await publish(api, 'calls', line(onEvent('calls'), call('calls'), tag('a', 'a')));
    await publish(api, 'later', line(onEvent('later'), tag('a', 'a')));
    await publish(api, 'blocked', line(onEvent('blocked'), forward('call', `${blocked.url}/blocked`), tag('a', 'a')));
    const paused = await api.must('POST', '/targets', { origin: blocked.url });
    await api.must('POST', `/targets/${String(paused['id'])}/pause`);
    let isOver = false;
    target.mode(({ path }) => {
      if (path === '/fails') return { kind: 'status', status: 404 };
      return isOver ? { kind: 'ok' } : { kind: 'late', delayMs: 8_000 };
    });
    // A mail server's 451 is worth another try, and no breaker stands before it.
    mail.mode(({ to }) =>
      to.some((address) => address.startsWith('dies-') || (address.startsWith('retries-') && !isOver))
        ? { kind: 'refuse_recipient', code: 451 }
        : { kind: 'accept' },
    );

    await emit('dies');
    await letAllEnd(onward, 90_000);
    await emit('fails', 'failed');
    await emit('ends', 'succeeded');
    for (const id of await emit('cancelled', 'waiting')) await api.must('POST', `/runs/${id}/cancel`);
    await emit('held', 'waiting');
    await api.must('POST', `/workflows/${held}/pause`);
    await api.must('POST', '/test/clock', { advance: '10m' });
    await emit('waits', 'waiting');
    await emit('blocked', 'waiting');
    await emit('retries', 'retrying');
    onward.process('gateway').kill('SIGSTOP');
    await emit('mails', 'waiting');
    await emit('calls');
    await target.waitFor((requests) => requests.filter(({ path }) => path === '/calls').length === EACH, 30_000);
    onward.process('worker-1').kill('SIGSTOP');
    await emit('later', 'pending');

    const before = await countStates();
    const valkey = new Redis(services.valkey().url);
    await valkey.flushall();
    valkey.disconnect();
    expect(before).toEqual(
      [
        'cancelled',
        'dead_lettered',
        'failed',
        'held',
        'in flight',
        'pending',
        'retrying',
        'succeeded',
        'waiting for mail',
        'waiting for target',
        'waiting for time',
      ].map((state) => ({
        state,
        count: EACH,
      })),
    );

    isOver = true;
    for (const name of ['worker-1', 'gateway']) onward.process(name).kill('SIGCONT');
    await api.must('POST', `/workflows/${held}/resume`);
    await api.must('POST', `/targets/${String(paused['id'])}/close`);
    await letAllEnd(onward, 90_000);
    expect(await query('SELECT state, count(*)::int FROM runs GROUP BY state ORDER BY state')).toEqual([
      { state: 'cancelled', count: EACH },
      { state: 'dead_lettered', count: EACH },
      { state: 'failed', count: EACH },
      { state: 'succeeded', count: 8 * EACH },
    ]);
    const requestsTo = (path: string) => target.requests().filter((request) => request.path === path).length;
    expect(['/fails', '/calls'].map(requestsTo)).toEqual([EACH, EACH]);
    expect(blocked.requests()).toHaveLength(EACH);
    expect(mail.messages()).toHaveLength(2 * EACH);
    const both = { ...onward, target: { ...target, requests: () => [...target.requests(), ...blocked.requests()] } };
    expect(await checkHistories(both)).toEqual([]);
  },
  scaled(180_000, 900_000),
);
