/**
 * P7: from sending the POST of an event, at five a second, to the start of its first step as the attempt records it, by the clock of the machine and
 * rounded up to the ms: the claim has begun then. What a peer's step says of its own start is the same. Beside it the arrival of the step's request at a target in this
 * process, by one clock: its intent was committed before it left, so it is later than anybody's committed start.
 *
 * P13: from the instant a wait is due to the committed row of the step behind it, at light load; both instants are the database's.
 */
import { setTimeout as pause } from 'node:timers/promises';
import { inFlight } from '../in-flight.js';
import { emailOf, forwardStep, publish, tagSteps, writeContacts } from '../journeys.js';
import { median, percentile } from '../median.js';
import type { Onward } from '../onward.js';
import { trickleOnPeer, WARM_UP_RUNS } from '../peers.js';
import { startTarget, type TargetServer } from '../target-server.js';
import type { Bench, Group, Sample, Target } from '../target.js';
import { until } from '../until.js';
import { withOnward } from '../with-onward.js';
import { round } from '../write-table.js';

const EVERY_MS = 200;
const WARM_UP_IN_FLIGHT = 8;
const WAITS = 40;

const ms = (id: string, what: string, must: number | null, aim: number | null): Target => ({
  id,
  what,
  unit: 'ms',
  judged: 'value',
  better: 'lower',
  must,
  aim,
});

export const triggerLatency: Group = {
  targets: [
    ms('P7 p50', 'from sending an event to its first step, median', 8, 5),
    ms('P7 p99', 'from sending an event to its first step, 99 %', 40, 20),
    ms('P7 call p50', 'from sending an event to the call of its first step reaching its target, median', null, null),
    ms('P7 call after 201 p50', 'from the answer to an event to that call, median', null, null),
    {
      ...ms('P7 DBOS', 'from sending an event to its first step, median, against DBOS', null, null),
      judged: 'ratio',
      against: 'from a call in its own process to its first step',
    },
  ],
  async measure(bench, wanted) {
    const all = [];
    const dbos: number[] = [];
    const count = bench.isQuick ? 60 : 150;
    for (let nth = 1; nth <= bench.repetitions; nth += 1) {
      bench.say(`${nth}/${bench.repetitions} trigger to first step`);
      all.push(await measureTriggers(bench, count));
      if (wanted.has('P7 DBOS')) dbos.push(median(await trickleOnPeer('dbos', { ...bench, runs: count, everyMs: EVERY_MS })));
    }
    const note = `the start as recorded; ${count} starts`;
    return [
      { id: 'P7 p50', values: all.map(({ started }) => median(started)), note },
      { id: 'P7 p99', values: all.map(({ started }) => percentile(started, 0.99)), note },
      { id: 'P7 call p50', values: all.map(({ requested }) => median(requested)) },
      { id: 'P7 call after 201 p50', values: all.map(({ requestedAfterAnswer }) => median(requestedAfterAnswer)) },
      { id: 'P7 DBOS', values: dbos.length === 0 ? [] : all.map(({ started }) => median(started)), against: dbos },
    ];
  },
};

/** In ms: the first two from the sending of the event. */
type Delays = { started: number[]; requested: number[]; requestedAfterAnswer: number[] };

async function measureTriggers(bench: Bench, count: number): Promise<Delays> {
  const target = await startTarget();
  try {
    return await withOnward({ ...bench, env: { EGRESS_ALLOW: target.host } }, (onward) => sendSlowly(onward, target, count));
  } finally {
    await target.close();
  }
}

async function sendSlowly(onward: Onward, target: TargetServer, count: number): Promise<Delays> {
  await writeContacts(onward.query, 100);
  await publish(onward.api, 'latency', [forwardStep('call', `http://${target.host}/{{ event.nth }}`)]);
  const send = (nth: number) => onward.api.must('POST', '/events', { type: 'latency', contact: { email: emailOf(nth % 100) }, payload: { nth: String(nth) } });
  const called = (total: number) => until('every first step has called', () => Promise.resolve(target.firstCalls.size === total), { withinMs: 60_000 });
  await inFlight(WARM_UP_RUNS, WARM_UP_IN_FLIGHT, send);
  await called(WARM_UP_RUNS);
  const epochMs = readEpoch();
  const sentAt: number[] = [];
  const answeredAt: number[] = [];
  for (let nth = 0; nth < count; nth += 1) {
    const next = performance.now() + EVERY_MS;
    sentAt.push(performance.now());
    await send(WARM_UP_RUNS + nth);
    answeredAt.push(performance.now());
    await pause(Math.max(0, next - performance.now()));
  }
  await called(WARM_UP_RUNS + count);
  const startedAt = await readStarts(onward);
  if (startedAt.size !== WARM_UP_RUNS + count) throw new Error(`Wanted ${WARM_UP_RUNS + count} first steps, found ${startedAt.size}`);
  const since = (instants: readonly number[]) => instants.map((at, index) => (target.firstCalls.get(`/${WARM_UP_RUNS + index}`) ?? Number.NaN) - at);
  const started = sentAt.map((at, index) => (startedAt.get(`${WARM_UP_RUNS + index}`) ?? Number.NaN) - epochMs - at);
  return { started, requested: since(sentAt), requestedAfterAnswer: since(answeredAt) };
}

/** What `performance.now()` counts from by the machine's clock, in ms since 1970, read as that goes on by one. */
function readEpoch(): number {
  const before = Date.now();
  let now = before;
  while (now === before) now = Date.now();
  return now - performance.now();
}

/** When the first step of each event began, by the event's number, in ms since 1970. */
async function readStarts(onward: Onward): Promise<Map<string, number>> {
  const found = await onward.query<{ nth: string; at: number }>(
    `SELECT payload ->> 'nth' AS nth, extract(epoch FROM started_at)::float8 * 1000 AS at
     FROM events JOIN runs ON event_id = events.id JOIN attempts ON run_id = runs.id WHERE attempts.node = 'call' AND attempts.n = 1`,
  );
  return new Map(found.map(({ nth, at }) => [nth, at]));
}

export const waitLateness: Group = {
  targets: [ms('P13', 'lateness of a due wait at light load, 99 %', 500, 100), ms('P13 p50', 'the same, median', null, null)],
  async measure(bench): Promise<Sample[]> {
    const all: number[][] = [];
    for (let nth = 1; nth <= bench.repetitions; nth += 1) {
      bench.say(`${nth}/${bench.repetitions} waits that come due`);
      all.push(await withOnward(bench, measureWaits));
      bench.say(`    ${round(median(all.at(-1) ?? []))} ms`);
    }
    const note = `${WAITS} waits of a minute, 2 a second`;
    return [
      { id: 'P13', values: all.map((one) => percentile(one, 0.99)), note },
      { id: 'P13 p50', values: all.map((one) => median(one)) },
    ];
  },
};

async function measureWaits(onward: Onward): Promise<number[]> {
  await writeContacts(onward.query, WAITS);
  const workflowId = await publish(onward.api, 'wait', [{ id: 'pause', type: 'wait', config: { kind: 'duration', duration: 'PT1M' } }, ...tagSteps(1)]);
  for (let nth = 0; nth < WAITS; nth += 1) {
    await onward.api.must('POST', '/events', { type: 'wait', contact: { email: emailOf(nth) } });
    await pause(500);
  }
  const waiting = `SELECT id, due_at AS "dueAt" FROM runs WHERE workflow_id = $1 AND state = 'waiting'`;
  await until('all wait', async () => (await onward.query(waiting, [workflowId])).length === WAITS, { withinMs: 30_000 });
  await onward.query(`CREATE TABLE bench_due AS ${waiting.replace('$1', `'${workflowId}'`)}`);
  await until('all have ended', async () => (await onward.query('SELECT 1 FROM runs WHERE ended_at IS NULL')).length === 0, {
    withinMs: 180_000,
    everyMs: 500,
  });
  const found = await onward.query<{ lateMs: number }>(
    `SELECT extract(epoch FROM attempts.started_at - bench_due."dueAt")::float8 * 1000 AS "lateMs"
     FROM bench_due JOIN attempts ON run_id = bench_due.id WHERE node = 's1' AND n = 1`,
  );
  if (found.length !== WAITS) throw new Error(`Wanted ${WAITS} steps behind waits, found ${found.length}`);
  if (found.some(({ lateMs }) => lateMs < 0)) throw new Error('A wait was early');
  return found.map(({ lateMs }) => lateMs);
}
