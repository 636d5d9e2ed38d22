import { setTimeout as pause } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { checkSentOnce, checkTagsAddedOnce } from '../src/check-effects.js';
import { checkHistories } from '../src/check-histories.js';
import { countLargestShared } from '../src/commit-log.js';
import { createDraw, type Draw } from '../src/draw.js';
import { install, type Installation } from '../src/installation.js';
import { forward, line, mailTo, makeTemplate, onEvent, publish, tag, wait } from '../src/journeys.js';
import { letAllEnd } from '../src/let-all-end.js';
import { sendEvent } from '../src/send-events.js';
import { scaled } from './scaled.js';
import { seeds } from './seeds.js';

/**
 * kill -9 in the middle of flushes: events come in bursts, frames of many runs share transactions, and in each of its first lives a process is killed at a
 * fail point, at a passing that the seed draws, while Postgres ends the connections of transactions that are under way. Bursts go on until
 * all of these lives are over.
 */
const BURST = scaled(100, 300);
const MAX_BURSTS = 20;

/** With the last passing at which a life of one burst is well on its way there. */
type Points = Readonly<Record<string, number>>;
const OF_BACKENDS: Points = {
  'event.before-commit': 10,
  // The first commits of a burst are those of events.
  'commit.before-enqueue': 5,
  'commit.after-enqueue': 5,
  'frame.before-commit': 12,
  'frame.after-commit': 150,
  'claim.after-commit': 40,
  'intent.after-commit': 40,
  'outcome.before-advance': 120,
  'outcome.after-commit': 120,
  'wait.after-commit': 30,
  'action.before-effect': 60,
  'action.after-effect': 60,
  'mail.after-begin': 30,
  'mail.after-end': 30,
};
const OF_WORKERS: Points = { 'worker.before-send': 30, 'worker.after-send': 30, 'worker.before-record': 100 };
const OF_GATEWAYS: Points = { 'mail.before-smtp': 30, 'mail.after-smtp': 30 };

/** The first lives of a backend always end before the last writes of a flush and its commit leave, and right behind the commit. */
function drawBackendLives(draw: Draw, lives: number): string[] {
  const first = ['frame.before-commit', 'frame.after-commit'].map((name) => `${name}:kill9@${draw.integer(1, OF_BACKENDS[name] ?? 1)}`);
  return [...first, ...drawLives(draw, OF_BACKENDS, lives - first.length)];
}

/** Two fail points for each life, of which the first to be reached ends it. */
function drawLives(draw: Draw, points: Points, lives: number): string[] {
  return Array.from({ length: lives }, () => {
    const first = draw.pick(Object.keys(points));
    const second = draw.pick(Object.keys(points).filter((name) => name !== first));
    return [first, second].map((name) => `${name}:kill9@${draw.integer(1, points[name] ?? 1)}`).join(',');
  });
}

type Case = {
  /** Which database of the Valkey. */
  valkey: number;
  leaseMs: number;
  /** Fail points by process, one entry for each of its first lives. */
  plans: (draw: Draw) => Record<string, string[]>;
  check: (onward: Installation) => Promise<void>;
};

async function killInFlushes(seed: number, { valkey, leaseMs, plans, check }: Case): Promise<void> {
  const draw = createDraw(seed);
  const drawn = plans(draw);
  const killings = Object.values(drawn).flat().length;
  const onward = await install({
    postgresUrl: process.env['ONWARD_TEST_POSTGRES_URL'] ?? '',
    valkeyUrl: `${process.env['ONWARD_TEST_VALKEY_URL']}/${valkey}`,
    backends: 2,
    workers: 2,
    env: { AUTOMATIONS_LEASE_MS: String(leaseMs) },
    failPoints: Object.fromEntries(Object.entries(drawn).map(([name, lives]) => [name, (life: number) => lives[life - 1] ?? ''])),
  });
  const ending = new AbortController();
  try {
    const { api, apis, target, query } = onward;
    await makeTemplate(api, 'hello');
    await publish(api, 'hears of tags', line(onEvent('tag.added')), { reentry: 'always' });
    const steps = [tag('mark', 'marked'), forward('call', `${target.url}/call`), mailTo('greet', 'hello'), wait('rest', '2s'), tag('close', 'closed')];
    const workflow = await publish(api, 'in bursts', line(onEvent('burst'), ...steps), { reentry: 'always' });
    target.mode((_, nth) => ({ kind: 'late', delayMs: nth % 50 }));

    const endings = endConnections(onward, draw, ending.signal);
    const countKills = () => onward.lines.filter((text) => text.includes('was ended by SIGKILL')).length;
    let sent = 0;
    for (let burst = 0; burst < MAX_BURSTS && countKills() < killings; burst += 1) {
      const answers = await Promise.all(
        Array.from({ length: BURST }, (_, nth) => {
          const id = `b${burst}-${nth}`;
          return sendEvent(apis, { id, type: 'burst', contact: { email: `${id}@example.test`, attributes: { name: id } } }, { turn: nth });
        }),
      );
      expect(answers.filter(({ isAccepted }) => !isAccepted)).toEqual([]);
      sent += BURST;
    }
    ending.abort();
    const ended = await endings;
    await letAllEnd(onward, 240_000, { hasGatewayLived: !('gateway' in drawn) });

    expect(await query('SELECT state, count(*)::int FROM runs WHERE workflow_id = $1 GROUP BY 1', [workflow])).toEqual([{ state: 'succeeded', count: sent }]);
    expect(await checkHistories(onward)).toEqual([]);
    expect(await checkTagsAddedOnce(query)).toEqual([]);
    await check(onward);
    expect(countKills()).toBe(killings);
    expect(ended.flushes).toBeGreaterThan(0);
    const shared = await countLargestShared(query);
    expect(shared).toBeGreaterThan(10);
    console.log(
      `seed ${seed}: ${sent} runs, ${killings} kills, ${ended.all} connections ended, ${ended.flushes} of them flushes of frames, ${shared} runs in the fullest transaction`,
    );
  } finally {
    ending.abort();
    await onward.close();
  }
}

/**
 * Until it is told to stop, ends one connection after another that is about to commit, of a flush of frames if there is one; answers how many, and how many that were. A flush is
 * there for some milliseconds, so it looks often; a backend whose flushes all fail would reach no fail point, so it lets some pass.
 */
async function endConnections({ query }: Installation, draw: Draw, signal: AbortSignal): Promise<{ all: number; flushes: number }> {
  const ended = { all: 0, flushes: 0 };
  while (!signal.aborted) {
    await pause(draw.integer(2, 20));
    const found = await query<{ isFlush: boolean }>(
      `SELECT pg_terminate_backend(pid), query ~ 'UPDATE (runs|attempts)' AS "isFlush" FROM pg_stat_activity
       WHERE application_name = 'onward-backend' AND datname = current_database() AND xact_start IS NOT NULL
         AND query ~ '(UPDATE runs|UPDATE attempts|INSERT INTO (runs|attempts|events|contact_tags)|^COMMIT)'
       ORDER BY query ~ 'UPDATE runs' DESC, random() LIMIT 1`,
    );
    ended.all += found.length;
    ended.flushes += found.filter(({ isFlush }) => isFlush).length;
    if (found.length > 0) await pause(draw.integer(100, 400));
  }
  return ended;
}

const ONE_AND_ALL = {
  // Nobody's lease lapses, so an outcome in the hands of a worker outlives them all.
  'backends that are killed in the middle of flushes lose nothing and do nothing twice': {
    valkey: 11,
    leaseMs: 60_000,
    plans: (draw) => ({ 'backend-1': drawBackendLives(draw, 4), 'backend-2': drawBackendLives(draw, 4) }),
    check: async (onward) => expect(await checkSentOnce(onward)).toEqual([]),
  },
  'backends, workers and gateway that are killed in the middle of flushes lose nothing, and repeat only what is uncertain': {
    valkey: 12,
    leaseMs: 6_000,
    plans: (draw) => ({
      'backend-1': drawBackendLives(draw, 3),
      'backend-2': drawBackendLives(draw, 3),
      'worker-1': drawLives(draw, OF_WORKERS, 2),
      'worker-2': drawLives(draw, OF_WORKERS, 2),
      gateway: drawLives(draw, OF_GATEWAYS, 2),
    }),
    check: async ({ query }) => expect(await query(`SELECT 1 FROM attempts WHERE status = 'failed'`)).toEqual([]),
  },
} as const satisfies Record<string, Case>;
const titles = Object.keys(ONE_AND_ALL) as (keyof typeof ONE_AND_ALL)[];

for (const seed of seeds()) {
  for (const title of titles.slice(0, scaled(1, titles.length))) {
    test(`seed ${seed}: ${title}`, { timeout: 600_000 }, () => killInFlushes(seed, ONE_AND_ALL[title]));
  }
}
