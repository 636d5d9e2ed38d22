import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import { checkHistories } from '../src/check-histories.js';
import { install, type Installation } from '../src/installation.js';
import { forward, line, mailTo, makeTemplate, onEvent, publish, tag, wait } from '../src/journeys.js';
import { letAllEnd } from '../src/let-all-end.js';
import { killAndNote, measureRecovery, tellRecovery } from '../src/recovery.js';
import { type OwnServices, startOwnServices } from '../src/own-services.js';
import { type SentEvent, sendEvent } from '../src/send-events.js';

/**
 * Each process is killed by SIGKILL in the middle of runs that tag, call a target that takes its time, mail, wait and end. Whatever died, and
 * whenever, every run ends succeeded, its history replays, and neither target nor mail server saw more than the record allows.
 */
const RUNS = 30;

let services: OwnServices;
let onward: Installation;
let batch = 0;

beforeAll(async () => {
  services = await startOwnServices();
  onward = await install({ postgresUrl: services.postgres().url('postgres'), valkeyUrl: services.valkey().url });
  await makeTemplate(onward.api, 'hello');
  await publish(
    onward.api,
    'killed in the middle',
    line(
      onEvent('order.paid'),
      tag('mark', 'buyer'),
      forward('call', `${onward.target.url}/orders`),
      mailTo('greet', 'hello'),
      wait('rest', '1h'),
      tag('close', 'closed'),
    ),
    { reentry: 'always' },
  );
  onward.target.mode({ kind: 'late', delayMs: 300 });
});
afterAll(async () => {
  await onward?.close();
  await services?.stop();
});
beforeEach(() => {
  batch += 1;
});

/** One event after the other, each sent again until it is accepted. */
async function emit(): Promise<SentEvent[]> {
  const sent: SentEvent[] = [];
  for (let nth = 1; nth <= RUNS; nth += 1) {
    const id = `b${batch}-${nth}`;
    sent.push(await sendEvent(onward.apis, { id, type: 'order.paid', contact: { email: `${id}@example.test`, attributes: { name: id } } }));
  }
  return sent;
}

const requestsOfBatch = () => onward.target.requests().filter(({ body }) => body.toString().includes(`"b${batch}-`)).length;
const mailsOfBatch = () => onward.mail.messages().filter(({ to }) => to.some((address) => address.startsWith(`b${batch}-`))).length;

const MOMENTS = {
  'as runs begin': async () => (await onward.query<{ count: number }>('SELECT count(*)::int FROM runs WHERE event_id LIKE $1', [`b${batch}-%`]))[0]?.count ?? 0,
  'as runs call': async () => requestsOfBatch(),
  'as runs mail': async () => mailsOfBatch(),
};

const KILLS = {
  'worker-1': () => onward.process('worker-1').kill('SIGKILL'),
  backend: () => onward.process('backend').kill('SIGKILL'),
  gateway: () => onward.process('gateway').kill('SIGKILL'),
  Valkey: () => services.valkey().kill('SIGKILL'),
  Postgres: () => services.postgres().kill('SIGKILL'),
};

for (const killed of Object.keys(KILLS) as (keyof typeof KILLS)[]) {
  for (const moment of Object.keys(MOMENTS) as (keyof typeof MOMENTS)[]) {
    test(`a kill -9 of ${killed} ${moment} changes nothing about how they end`, async () => {
      const emitting = emit();
      await onward.until(`ten of the batch are there ${moment}`, async () => (await MOMENTS[moment]()) >= 10);
      const kill = await killAndNote(onward, KILLS[killed]);
      expect((await emitting).filter(({ isAccepted }) => !isAccepted)).toEqual([]);
      await letAllEnd(onward, 90_000);
      const states = await onward.query('SELECT state, count(*)::int FROM runs WHERE event_id LIKE $1 GROUP BY state', [`b${batch}-%`]);
      expect(states).toEqual([{ state: 'succeeded', count: RUNS }]);
      expect(await checkHistories(onward)).toEqual([]);
      // An outcome in the hands of a living worker outlives everybody else: only the worker's own death leaves a send uncertain.
      if (killed !== 'worker-1') expect(requestsOfBatch()).toBe(RUNS);
      console.log(tellRecovery(`${killed} killed ${moment}`, await measureRecovery(onward, kill)));
    });
  }
}
