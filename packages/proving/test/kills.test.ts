import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import { checkHistories } from '../src/check-histories.js';
import { install, type Installation } from '../src/installation.js';
import { letAllEnd } from '../src/let-all-end.js';
import { type OwnServices, startOwnServices } from '../src/own-services.js';
import { forward, line, mailTo, makeTemplate, onEvent, publish, tag, wait } from '../src/journeys.js';

/**
 * Each process is killed once, by SIGKILL, in the middle of runs that tag, call a target that takes its time, mail, wait and end. Whatever
 * died, every run ends succeeded, its history replays, and neither target nor mail server saw more than the record allows.
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

async function emit(): Promise<void> {
  for (let nth = 1; nth <= RUNS; nth += 1) {
    const id = `b${batch}-${nth}`;
    await onward.api.must('POST', '/events', { id, type: 'order.paid', contact: { email: `${id}@example.test`, attributes: { name: id } } });
  }
}

const targetHasSeen = (count: number) => onward.until(`the target has seen ${count} requests of this batch`, async () => ofBatch() >= count);
const ofBatch = () => onward.target.requests().filter(({ body }) => body.toString().includes(`"b${batch}-`)).length;

/** Everything comes to its end, and that is the right one. */
async function everythingEnds(): Promise<void> {
  await letAllEnd(onward, 90_000);
  const states = await onward.query<{ state: string; count: number }>(`SELECT state, count(*)::int FROM runs WHERE event_id LIKE $1 GROUP BY state`, [
    `b${batch}-%`,
  ]);
  expect(states).toEqual([{ state: 'succeeded', count: RUNS }]);
  expect(await checkHistories(onward)).toEqual([]);
}

for (const process of ['worker-1', 'backend', 'gateway'] as const) {
  test(`a kill -9 of ${process} in the middle of runs changes nothing about how they end`, async () => {
    await emit();
    await targetHasSeen(10);
    onward.processes[process]?.kill('SIGKILL');
    await everythingEnds();
    expect(onward.processes[process]?.countRestarts()).toBeGreaterThanOrEqual(1);
  });
}

test('a kill -9 of Valkey in the middle of runs changes nothing about how they end', async () => {
  await emit();
  await targetHasSeen(10);
  services.valkey().kill('SIGKILL');
  await everythingEnds();
});

test('a kill -9 of Postgres in the middle of runs changes nothing about how they end', async () => {
  await emit();
  await targetHasSeen(10);
  services.postgres().kill('SIGKILL');
  await everythingEnds();
});
