/**
 * M1–M5: everything at once on one Onward with a mail gateway, for ten minutes: events one by one, waits that come due, calls to a target, mail, and
 * people who read the API. The load is open: what is late makes nothing else wait. Afterwards every run has succeeded and every mail is in the
 * sink, or the rows fail.
 *
 * Growth is held between two windows, the first once all is warm and the last at the end; of memory the lowest in each, since what lies between two
 * collections is no growth. With --quick a minute and a half: waits take a minute at least, and some should come due under load.
 */
import { setTimeout as pause } from 'node:timers/promises';
import { startMailSink } from '@onward/stack/mail-sink';
import { countKeys } from '../count-keys.js';
import { emailOf, forwardStep, type GraphNode, publish, tagSteps, writeContacts } from '../journeys.js';
import { median, percentile } from '../median.js';
import type { Onward } from '../onward.js';
import { pssOf } from '../proc.js';
import { endLater } from '../started.js';
import { startTarget } from '../target-server.js';
import type { Bench, Group, Sample, Target } from '../target.js';
import { until } from '../until.js';
import { withOnward } from '../with-onward.js';
import { round } from '../write-table.js';

const LOAD = { seconds: 600, firstLookAt: 120, window: 60 };
const QUICK_LOAD = { seconds: 90, firstLookAt: 40, window: 15 };
const EVENT_EVERY_MS = 50;
const READ_EVERY_MS = 100;
const LOOK_EVERY_MS = 2_000;
const CONTACTS = 1_000;
/** Long enough for queues to forget what has ended. */
const KEYS_SETTLE_MS = 5_000;
const MB = 1_000_000;

/** In turn: one event in four. */
const JOURNEYS: Readonly<Record<string, (host: string) => GraphNode[]>> = {
  waits: () => [{ id: 'pause', type: 'wait', config: { kind: 'duration', duration: 'PT1M' } }, ...tagSteps(1)],
  calls: (host) => [forwardStep('s1', `http://${host}/`, { body: { hello: 'world' } })],
  mails: () => [{ id: 's1', type: 'action', config: { action: 'SEND_MAIL', with: { template: 'mixed' } } }],
  tags: () => tagSteps(3),
};
const EVENTS = Object.keys(JOURNEYS);
const EVENTS_AT_ONCE = EVENTS.filter((event) => event !== 'waits');

const READS = {
  'list of runs': () => '/runs?limit=50',
  'run with its history': (run: string) => `/runs/${run}`,
  'list of workflows': () => '/workflows',
  'list of contacts': () => '/contacts?limit=50',
} as const;
const KINDS = ['events', ...Object.keys(READS)];

const API_MS = 150;
const WAKE_MS = 1_000;
const MEMORY_GROWTH = 1.25;
const CONNECTIONS = 5;
const KEYS = 10;

const row = (id: string, what: string, unit: string, must: number): Target => ({ id, what, unit, judged: 'value', better: 'lower', must, aim: null });

export const mixed: Group = {
  targets: [
    ...KINDS.map((kind) => row(`M1 ${kind}`, `API under mixed load, ${kind}, 99 %`, 'ms', API_MS)),
    row('M2 due', 'from the instant a wait is due to the step behind it, 99 %', 'ms', WAKE_MS),
    row('M2 start', 'from the commit of an event to the first step of its run, 99 %', 'ms', WAKE_MS),
    {
      ...row('M3', 'memory of backend and worker at the end', 'MB', MEMORY_GROWTH),
      judged: 'ratio',
      against: 'once warm',
    },
    row('M4', 'connections to Postgres that came beyond those once warm', 'connections', CONNECTIONS),
    row('M5', 'keys in Valkey beyond those before the load, all settled', 'keys', KEYS),
  ],
  async measure(bench): Promise<Sample[]> {
    const all: Found[] = [];
    for (let nth = 1; nth <= bench.repetitions; nth += 1) {
      bench.say(`${nth}/${bench.repetitions} mixed load`);
      all.push(await measureMixed(bench));
    }
    const last = all.at(-1);
    return [
      ...KINDS.map((kind): Sample => {
        const values = all.map(({ took }) => took[kind] ?? []);
        return {
          id: `M1 ${kind}`,
          values: values.map((one) => percentile(one, 0.99)),
          note: `median ${round(median(values.at(-1) ?? []))} ms, ${values.at(-1)?.length} asked`,
        };
      }),
      { id: 'M2 due', values: all.map(({ late }) => percentile(late, 0.99)), note: `median ${round(median(last?.late ?? []))} ms, ${last?.late.length} waits` },
      { id: 'M2 start', values: all.map(({ began }) => percentile(began, 0.99)), note: `median ${round(median(last?.began ?? []))} ms` },
      // Young processes take memory for long before they collect: a minute and a half says nothing of growth.
      bench.isQuick
        ? {
            id: 'M3',
            values: [],
            note: `needs the ten minutes; ${all.map(({ bytes }) => `${round(bytes.first / MB)} MB, then ${round(bytes.last / MB)}`).join('; ')}`,
          }
        : {
            id: 'M3',
            values: all.map(({ bytes }) => bytes.last / MB),
            against: all.map(({ bytes }) => bytes.first / MB),
            note: 'PSS, the lowest of a window',
          },
      { id: 'M4', values: all.map(({ connections }) => connections.last - connections.first), note: `${last?.connections.last} at the end` },
      { id: 'M5', values: all.map(({ keys }) => keys.last - keys.first), note: `${last?.keys.last} at the end` },
    ];
  },
};

type Ends = { first: number; last: number };
type Found = { took: Record<string, number[]>; late: number[]; began: number[]; bytes: Ends; connections: Ends; keys: Ends };

async function measureMixed(bench: Bench): Promise<Found> {
  const target = await startTarget();
  const sink = await startMailSink();
  const closeSink = endLater(() => sink.stop());
  try {
    return await withOnward({ ...bench, env: { EGRESS_ALLOW: target.host }, smtpUrl: sink.smtpUrl }, async (onward) => {
      await writeContacts(onward.query, CONTACTS);
      await onward.api.must('POST', '/templates', { name: 'mixed', subject: 'Hello', html: '<p>Hello {{ contact.email }}</p>', text: 'Hello' });
      for (const event of EVENTS) await publish(onward.api, event, JOURNEYS[event]?.(target.host) ?? []);
      // One of each, so that whatever stays for good is there before the first look; none that waits, to save a minute.
      for (const event of EVENTS_AT_ONCE) await send(onward, event, 0);
      await settle(onward, () => sink.messages().length === 1);
      const keysBefore = await countKeys(bench.servers.valkeyUrl);
      const load = await runLoad(onward, bench);
      await settle(onward, () => sink.messages().length === 1 + load.events.mails);
      await assertAllSucceeded(onward, EVENTS_AT_ONCE.length + load.events.all);
      const keys = { first: keysBefore, last: await countKeys(bench.servers.valkeyUrl) };
      return { took: load.took, bytes: load.bytes, connections: load.connections, keys, ...(await readLags(onward)) };
    });
  } finally {
    await Promise.all([target.close(), closeSink()]);
  }
}

type Look = { at: number; bytes: number; connections: number };

async function runLoad(onward: Onward, { isQuick, say }: Bench) {
  const { seconds, firstLookAt, window } = isQuick ? QUICK_LOAD : LOAD;
  const { api, query } = onward;
  const took: Record<string, number[]> = Object.fromEntries(KINDS.map((kind) => [kind, []]));
  const timed = async (kind: string, ask: () => Promise<unknown>): Promise<void> => {
    const askedAt = performance.now();
    await ask();
    took[kind]?.push(performance.now() - askedAt);
  };
  const runs = await query<{ id: string }>('SELECT id FROM runs');
  const reads = Object.entries(READS);
  const looks: Look[] = [];
  const startedAt = performance.now();
  const secondsIn = (): number => (performance.now() - startedAt) / 1_000;
  await query('CREATE TABLE bench_due (id uuid PRIMARY KEY, due_at timestamptz NOT NULL)');
  await Promise.all([
    every(EVENT_EVERY_MS, seconds, (nth) => timed('events', () => send(onward, EVENTS[nth % EVENTS.length] ?? '', nth + 1))),
    every(READ_EVERY_MS, seconds, async (nth) => {
      const [kind, pathOf] = reads[nth % reads.length] ?? ['', () => ''];
      await timed(kind, () => api.must('GET', pathOf(runs[nth % runs.length]?.id ?? '')));
    }),
    every(LOOK_EVERY_MS, seconds, async () => {
      await noteDue(onward);
      const { backend, worker } = onward.pids();
      const [found] = await query<{ count: number }>('SELECT count(*)::integer AS count FROM pg_stat_activity WHERE datname = current_database()');
      looks.push({ at: secondsIn(), bytes: pssOf([...backend, ...worker]), connections: found?.count ?? 0 });
    }),
  ]);
  const sent = Math.floor((seconds * 1_000) / EVENT_EVERY_MS);
  say(`    ${sent} events and ${Math.floor((seconds * 1_000) / READ_EVERY_MS)} reads in ${round(secondsIn())} s`);
  const within = (from: number, of: (look: Look) => number): number[] => looks.filter(({ at }) => at >= from && at <= from + window).map(of);
  const end = seconds - window;
  return {
    took,
    events: { all: sent, mails: Math.floor((sent + EVENTS.length - 1 - EVENTS.indexOf('mails')) / EVENTS.length) },
    bytes: { first: Math.min(...within(firstLookAt, ({ bytes }) => bytes)), last: Math.min(...within(end, ({ bytes }) => bytes)) },
    connections: {
      first: Math.max(...within(firstLookAt, ({ connections }) => connections)),
      last: Math.max(...within(end, ({ connections }) => connections)),
    },
  };
}

/** Begins `work` at a fixed beat, whether or not the one before has ended, and returns when all have; throws the first error of one, and begins no more then. */
async function every(ms: number, seconds: number, work: (nth: number) => Promise<void>): Promise<void> {
  const startedAt = performance.now();
  const begun: Promise<void>[] = [];
  const failures: unknown[] = [];
  for (let nth = 0; nth < Math.floor((seconds * 1_000) / ms) && failures.length === 0; nth += 1) {
    await pause(Math.max(0, startedAt + nth * ms - performance.now()));
    begun.push(work(nth).catch((error: unknown) => void failures.push(error)));
  }
  await Promise.all(begun);
  if (failures.length > 0) throw failures[0];
}

async function send({ api }: Onward, event: string, nth: number): Promise<void> {
  await api.must('POST', '/events', { id: `${event}-${nth}`, type: event, contact: { email: emailOf(nth % CONTACTS) } });
}

/** When each wait is due is known only while it waits. */
async function noteDue({ query }: Onward): Promise<void> {
  await query(`INSERT INTO bench_due SELECT id, due_at FROM runs WHERE state = 'waiting' AND wait_reason = 'time' ON CONFLICT DO NOTHING`);
}

async function settle({ query }: Onward, isMailThere: () => boolean): Promise<void> {
  const countLeft = async () => (await query('SELECT 1 FROM runs WHERE ended_at IS NULL LIMIT 1')).length;
  await until('all runs have ended and all mail has come', async () => (await countLeft()) === 0 && isMailThere(), { withinMs: 180_000, everyMs: 500 });
  await pause(KEYS_SETTLE_MS);
}

async function assertAllSucceeded({ query }: Onward, wanted: number): Promise<void> {
  const [found] = await query<{ succeeded: number; all: number }>(
    `SELECT count(*) FILTER (WHERE state = 'succeeded')::integer AS succeeded, count(*)::integer AS all FROM runs`,
  );
  if (found?.succeeded !== wanted || found.all !== wanted) throw new Error(`Of ${wanted} runs there are ${found?.all}, and ${found?.succeeded} succeeded`);
}

async function readLags({ query }: Onward): Promise<{ late: number[]; began: number[] }> {
  const due = await query<{ ms: number }>(
    `SELECT extract(epoch FROM attempts.started_at - bench_due.due_at)::float8 * 1000 AS ms
     FROM bench_due JOIN attempts ON run_id = bench_due.id WHERE node = 's1' AND n = 1`,
  );
  const began = await query<{ ms: number }>(
    `SELECT extract(epoch FROM attempts.started_at - runs.created_at)::float8 * 1000 AS ms FROM attempts JOIN runs ON runs.id = run_id
     WHERE attempts.n = 1 AND attempts.seq = (SELECT min(began.seq) FROM attempts AS began WHERE began.run_id = runs.id AND began.node_type <> 'trigger')`,
  );
  if (due.some(({ ms }) => ms < 0)) throw new Error('A wait was early');
  return { late: due.map(({ ms }) => ms), began: began.map(({ ms }) => ms) };
}
