import { setTimeout as pause } from 'node:timers/promises';
import { Redis } from 'ioredis';
import { afterEach, beforeEach, expect, onTestFailed, test } from 'vitest';
import { checkTagsAddedOnce } from '../src/check-effects.js';
import { checkHistories } from '../src/check-histories.js';
import { createDraw } from '../src/draw.js';
import { install, type Installation } from '../src/installation.js';
import { forward, line, mailTo, makeTemplate, onEvent, publish, tag, wait } from '../src/journeys.js';
import { letAllEnd } from '../src/let-all-end.js';
import { type OwnServices, startOwnServices } from '../src/own-services.js';
import { type Event, type SentEvent, sendEvent } from '../src/send-events.js';
import { seeds } from '../test/seeds.js';

/**
 * A minute of everything at once, drawn from a seed: bursts of journeys that tag, call a target in a bad way, mail and wait, while runs are cancelled
 * and replayed, contacts deleted, a workflow paused and resumed, and processes, services and connections killed, frozen and wiped.
 * Afterwards all ends, and every invariant holds.
 */
const LASTS_MS = 60_000;
const BACKENDS = ['backend-1', 'backend-2'];
const WORKERS = ['worker-1', 'worker-2', 'worker-3'];
const WAIT = '2s';

let services: OwnServices;
let onward: Installation;
beforeEach(async () => {
  services = await startOwnServices();
  onward = await install({
    postgresUrl: services.postgres().url('postgres'),
    valkeyUrl: services.valkey().url,
    backends: BACKENDS.length,
    workers: WORKERS.length,
  });
});
afterEach(async () => {
  await onward?.close();
  await services?.stop();
});

for (const seed of seeds()) {
  test(`seed ${seed}: whatever comes together in a minute, every invariant holds afterwards`, { timeout: 600_000 }, async () => {
    const draw = createDraw(seed);
    const { api, apis, target, query } = onward;
    const done: string[] = [];
    onTestFailed(({ task }) => {
      const why = task.result?.errors?.map(({ message, diff }) => `${message}\n${diff ?? ''}`) ?? [];
      console.log([`pnpm prove seeds --seed ${seed}`, ...done, ...why].join('\n'));
    });

    await makeTemplate(api, 'hello');
    const call = (id: string) => forward(id, `${target.url}/${id}`, { timeoutMs: 2_000 });
    const journeys = {
      tags: line(onEvent('tags'), ...['one', 'two', 'three', 'four', 'five'].map((name) => tag(name, name))),
      sends: line(onEvent('sends'), tag('before', 'before'), call('first'), tag('between', 'between'), call('second'), tag('after', 'after')),
      mails: line(onEvent('mails'), mailTo('greet', 'hello'), tag('greeted', 'greeted')),
      waits: line(onEvent('waits'), tag('begun', 'begun'), wait('rest', WAIT), call('third'), wait('sleep', '1h'), tag('rested', 'rested')),
    };
    const names = Object.keys(journeys) as (keyof typeof journeys)[];
    const workflows = new Map<string, string>();
    for (const name of names) workflows.set(name, await publish(api, name, journeys[name], { reentry: 'always' }));
    await publish(api, 'hears of tags', line(onEvent('tag.added')), { reentry: 'always' });

    let misbehaved = 0;
    let isWell = false;
    target.mode(() => {
      const lot = isWell ? 100 : draw.integer(1, 100);
      if (lot > 30) return { kind: 'late', delayMs: lot * 3 };
      misbehaved += 1;
      return draw.pick([
        { kind: 'fail' },
        { kind: 'reset' },
        { kind: 'cut' },
        { kind: 'hang' },
        { kind: 'status', status: 503 },
        { kind: 'status', status: 404 },
      ] as const);
    });

    const events: Event[] = [];
    const sending: Promise<SentEvent>[] = [];
    const burst = (): string => {
      const name = draw.pick(names);
      const count = draw.integer(20, 150);
      for (let nth = 0; nth < count; nth += 1) {
        const id = `${name}-${sending.length}`;
        const event = { id, type: name, contact: { email: `${id}@example.test`, attributes: { name: id } } };
        events.push(event);
        sending.push(sendEvent(apis, event, { turn: sending.length, withinMs: 180_000 }));
      }
      return `${count} ${name}`;
    };
    /** Some of what the database holds, of which it does not matter which; none while it is away. */
    const some = async (sql: string): Promise<string[]> =>
      (await query<{ id: string }>(`${sql} ORDER BY random() LIMIT ${draw.integer(1, 20)}`).catch(() => [])).map(({ id }) => id);
    const forEach = (ids: readonly string[], work: (id: string) => Promise<unknown>) => Promise.all(ids.map((id) => work(id).catch(() => undefined)));
    const backend = () => draw.pick(apis);
    /** Of runs whose cancel was answered: the last step that may still have been in hand. */
    const cancelled = new Map<string, number>();
    const cancel = async (id: string): Promise<void> => {
      const { run } = (await backend().must('POST', `/runs/${id}/cancel`)) as { run: { history: { seq: number }[] } };
      cancelled.set(id, Math.max(0, ...run.history.map(({ seq }) => seq)));
    };
    let isPaused = false;
    const pauseOrResume = async (): Promise<void> => {
      const { status } = await backend().call('POST', `/workflows/${workflows.get('waits')}/${isPaused ? 'resume' : 'pause'}`);
      if (status === 200) isPaused = !isPaused;
    };
    const frozen = new Set<string>();
    const freeze = async (): Promise<void> => {
      const name = draw.pick(WORKERS);
      if (frozen.has(name)) return;
      frozen.add(name);
      onward.process(name).kill('SIGSTOP');
      void pause(draw.integer(1_000, 10_000)).then(() => {
        onward.process(name).kill('SIGCONT');
        frozen.delete(name);
      });
    };
    const flushAll = async (): Promise<void> => {
      const valkey = new Redis(services.valkey().url, { retryStrategy: null, maxRetriesPerRequest: 0 });
      valkey.on('error', () => undefined);
      await valkey.flushall().catch(() => undefined);
      valkey.disconnect();
    };
    const endConnections = (which: string) => () =>
      query(`SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'onward-backend' AND datname = current_database() ${which}`).catch(
        () => undefined,
      );
    const kill = (processes: readonly string[]) => async () => onward.process(draw.pick(processes)).kill('SIGKILL');

    const disturbances: Record<string, () => Promise<unknown>> = {
      'kill a backend': kill(BACKENDS),
      'kill a worker': kill(WORKERS),
      'kill the gateway': kill(['gateway']),
      'kill Valkey': async () => services.valkey().kill('SIGKILL'),
      'kill Postgres': async () => services.postgres().kill('SIGKILL'),
      'wipe Valkey': flushAll,
      'end all connections': endConnections(''),
      'end a connection with a transaction under way': endConnections('AND xact_start IS NOT NULL ORDER BY random() LIMIT 1'),
      'freeze a worker': freeze,
      'pause or resume a workflow': pauseOrResume,
      'move the clock': () => backend().call('POST', '/test/clock', { advance: '1s' }),
      'cancel runs': async () => forEach(await some('SELECT id FROM runs WHERE ended_at IS NULL'), cancel),
      'cancel runs in hand': async () => forEach(await some(`SELECT id FROM runs WHERE state = 'running'`), cancel),
      'delete contacts': async () => forEach(await some('SELECT id FROM contacts'), (id) => backend().call('DELETE', `/contacts/${id}`)),
      'replay runs': async () =>
        forEach(await some(`SELECT id FROM runs WHERE state IN ('failed', 'dead_lettered')`), (id) => backend().call('POST', `/runs/${id}/replay`)),
    };

    const beganAtMs = performance.now();
    while (performance.now() - beganAtMs < LASTS_MS) {
      const at = Math.round(performance.now() - beganAtMs);
      if (draw.integer(1, 10) <= 4) done.push(`${at} ms: ${burst()}`);
      else {
        const name = draw.pick(Object.keys(disturbances));
        done.push(`${at} ms: ${name}`);
        await disturbances[name]?.().catch(() => undefined);
      }
      await pause(draw.integer(100, 1_200));
    }
    isWell = true;
    const sent = await Promise.all(sending);
    expect(sent.filter(({ isAccepted }) => !isAccepted)).toEqual([]);
    await onward.until('no worker is frozen', async () => frozen.size === 0);
    await onward.until('both backends are ready', async () => (await Promise.all(apis.map((one) => one.ready()))).every((status) => status === 200), 60_000);
    if (isPaused) await pauseOrResume();
    await letAllEnd(onward, 300_000);

    expect(await checkHistories(onward)).toEqual([]);
    expect(await checkTagsAddedOnce(query)).toEqual([]);
    // Invariant 1: one run for each event, and none for one that met a paused workflow; sent again it is answered the same.
    const found = await query<{ id: string; runs: string[] }>(
      `SELECT events.id, coalesce(array_agg(runs.id) FILTER (WHERE runs.id IS NOT NULL), '{}') AS runs
       FROM events LEFT JOIN runs ON runs.event_id = events.id WHERE type = ANY($1) GROUP BY 1`,
      [names],
    );
    const runsOf = new Map(found.map(({ id, runs }) => [id, runs]));
    const isRight = (id: string): boolean => runsOf.get(id)?.length === 1 || (id.startsWith('waits-') && runsOf.get(id)?.length === 0);
    expect(events.filter(({ id }) => !isRight(id))).toEqual([]);
    for (const event of events) {
      const { status, body } = await backend().call('POST', '/events', event);
      const answered = (body['runs'] as { runId: string }[] | undefined)?.map(({ runId }) => runId);
      expect([event.id, status, answered]).toEqual([event.id, 200, runsOf.get(event.id)]);
    }
    // A cancel that was answered is kept: no step begins after it, save the end when the step in hand was the last.
    const lives = await query<{ id: string; seq: number }>(
      `SELECT id, seq FROM runs WHERE state <> 'cancelled' AND NOT EXISTS (SELECT 1 FROM attempts WHERE run_id = runs.id AND replay_of IS NOT NULL)`,
    );
    expect(lives.filter(({ id, seq }) => seq > (cancelled.get(id) ?? seq) + 1)).toEqual([]);
    // Invariant 7: only what a target or the loss of a contact did to a step is a failure of it, or the time it took: a worker that was frozen finds
    // its sends timed out, however soon they were answered.
    const spent = await query<{ code: string; failed: number }>(
      `SELECT failure ->> 'code' AS code, count(*)::int AS failed FROM attempts
       WHERE status = 'failed' AND failure ->> 'code' NOT IN ('contact_deleted', 'contact_missing', 'timeout') GROUP BY 1`,
    );
    const all = spent.reduce((sum, { failed }) => sum + failed, 0);
    expect(all, `failed steps: ${JSON.stringify(spent)}`).toBeLessThanOrEqual(misbehaved);
    // Invariant 8.
    const early = await query(
      `SELECT run_id, ended_at - started_at AS waited FROM attempts WHERE node = 'rest' AND status = 'done' AND ended_at - started_at < $1::interval`,
      [WAIT],
    );
    expect(early).toEqual([]);
    const states = await query<{ state: string; count: number }>('SELECT state, count(*)::int FROM runs WHERE event_id = ANY($1) GROUP BY 1 ORDER BY 1', [
      sent.map(({ id }) => id),
    ]);
    console.log(`seed ${seed}: ${done.length} happenings, ${states.map(({ state, count }) => `${count} ${state}`).join(', ')}`);
  });
}
