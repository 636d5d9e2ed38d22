import { randomInt } from 'node:crypto';
import { setTimeout as pause } from 'node:timers/promises';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { checkHistories } from '../src/check-histories.js';
import { install, type Installation } from '../src/installation.js';
import { forward, line, onEvent, publish, tag } from '../src/journeys.js';
import { letAllEnd } from '../src/let-all-end.js';
import { type OwnServices, startOwnServices } from '../src/own-services.js';
import { sendEvent } from '../src/send-events.js';

/**
 * Connections to Postgres die again and again under runs that send. Whatever an error of a dying connection looks like, the call it broke is
 * worth a repeat and is answered so: none is answered `internal`, and so no step is begun twice and every request is sent once.
 */
const ROUNDS = 20;
const RUNS = 30;

let services: OwnServices;
let onward: Installation;
beforeAll(async () => {
  services = await startOwnServices();
  onward = await install({ postgresUrl: services.postgres().url('postgres'), valkeyUrl: services.valkey().url, workers: 2 });
  const steps = ['a', 'b', 'c'].flatMap((id) => [forward(id, `${onward.target.url}/${id}`), tag(`${id}_tag`, id)]);
  await publish(onward.api, 'sends', line(onEvent('sent'), ...steps), { reentry: 'always' });
});
afterAll(async () => {
  await onward?.close();
  await services?.stop();
});

const internal = () => onward.lines.filter((text) => text.includes('"a call failed"') || text.includes('"unforeseen fault"'));

async function round(nth: string, break_: () => Promise<unknown>): Promise<void> {
  onward.target.mode(() => ({ kind: 'late', delayMs: randomInt(150) }));
  const sending = Promise.all(
    Array.from({ length: RUNS }, (_, run) => sendEvent(onward.apis, { id: `${nth}-${run}`, type: 'sent', contact: { email: `${nth}-${run}@example.test` } })),
  );
  for (let times = 0; times < 3; times += 1) {
    await pause(randomInt(100, 500));
    await break_();
  }
  expect((await sending).filter(({ isAccepted }) => !isAccepted)).toEqual([]);
  await letAllEnd(onward, 90_000);
  const [count] = await onward.query<{ steps: number; attempts: number }>(
    `SELECT count(DISTINCT (attempts.run_id, attempts.seq))::int AS steps, count(*)::int AS attempts
     FROM attempts JOIN runs ON runs.id = run_id WHERE event_id LIKE $1 AND attempts.node IN ('a', 'b', 'c')`,
    [`${nth}-%`],
  );
  const requests = onward.target.requests().filter(({ body }) => body.toString().includes(`"${nth}-`)).length;
  expect(internal()).toEqual([]);
  expect([count, requests]).toEqual([{ steps: 3 * RUNS, attempts: 3 * RUNS }, 3 * RUNS]);
}

test(
  'no call is answered internal while all connections are ended again and again, and every request is sent once',
  async () => {
    for (let nth = 0; nth < ROUNDS; nth += 1) {
      await round(`t${nth}`, () =>
        onward
          .query(`SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'onward-backend' AND datname = current_database()`)
          .catch(() => undefined),
      );
    }
    expect(await checkHistories(onward)).toEqual([]);
  },
  ROUNDS * 120_000,
);

test(
  'no call is answered internal when Postgres is killed, and every request is sent once',
  async () => {
    for (let nth = 0; nth < ROUNDS; nth += 1) {
      let isKilled = false;
      await round(`k${nth}`, async () => {
        if (!isKilled) services.postgres().kill('SIGKILL');
        isKilled = true;
      });
    }
    expect(await checkHistories(onward)).toEqual([]);
  },
  ROUNDS * 120_000,
);
