import { createHash } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { checkHistories } from '../src/check-histories.js';
import { BEHAVIOURS, type Behaviour, type HostileTarget, startHostileTarget } from '../src/hostile-target.js';
import { install, type Installation } from '../src/installation.js';
import { forward, line, onEvent, publish } from '../src/journeys.js';
import { letAllEnd } from '../src/let-all-end.js';

/**
 * 2,000 outbound steps against targets that misbehave in every way we know, each of which writes down what it saw before it answers. Two
 * independent witnesses, the targets' files and the database, must tell the same story of every step.
 */
const RUNS = 540;
const STEPS = ['first', 'second', 'third', 'fourth'] as const;
const FAILING = Object.keys(BEHAVIOURS).filter((name) => !['plain', 'gzip', 'empty', 'status_404'].includes(name)) as Behaviour[];
const WELL: readonly Behaviour[] = ['plain', 'gzip', 'empty'];

/** Decided by key and number alone: the same in every run of the test for the same key. */
function dice(key: string, nth: number): number {
  return createHash('sha256').update(`${key}/${nth}`).digest().readUInt32BE(0);
}

const BY_STEP: Record<(typeof STEPS)[number], (key: string, nth: number) => Behaviour> = {
  first: (key, nth) => pick(key, nth, { failsPercent: 20, with: FAILING }),
  second: (key, nth) => pick(key, nth, { failsPercent: 10, with: ['hang', 'drip', 'reset_before', 'reset_after', 'long'] }),
  third: (key, nth) => (dice(key, nth) % 50 === 0 ? 'status_404' : pick(key, nth, { failsPercent: 15, with: ['status_429', 'status_503', 'status_500'] })),
  fourth: (key, nth) => pick(key, nth, { failsPercent: 0, with: FAILING }),
};

function pick(key: string, nth: number, { failsPercent, with: ways }: { failsPercent: number; with: readonly Behaviour[] }): Behaviour {
  const rolled = dice(key, nth);
  const from = rolled % 100 < failsPercent ? ways : WELL;
  return from[Math.floor(rolled / 100) % from.length] as Behaviour;
}

let folder: string;
let targets: Map<string, HostileTarget>;
let onward: Installation;
beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'onward-witness-'));
  targets = new Map();
  let seenByLast = 0;
  for (const step of STEPS) {
    // The last target is down at first, so that its breaker opens and everybody waits for it.
    const behave = step === 'fourth' ? (key: string, nth: number) => (++seenByLast <= 40 ? ('status_503' as const) : BY_STEP.fourth(key, nth)) : BY_STEP[step];
    targets.set(step, await startHostileTarget(join(folder, `${step}.jsonl`), behave));
  }
  onward = await install({
    postgresUrl: process.env['ONWARD_TEST_POSTGRES_URL'] ?? '',
    valkeyUrl: process.env['ONWARD_TEST_VALKEY_URL'] ?? '',
    workers: 2,
    env: { EGRESS_ALLOW: [...targets.values()].map(({ port }) => `127.0.0.1:${port}`).join(','), AUTOMATIONS_BREAKER_RESET_MS: '1000' },
  });
});
afterAll(async () => {
  await onward?.close();
  for (const target of targets.values()) await target.stop();
  rmSync(folder, { recursive: true, force: true });
});

test('what 2,000 outbound steps came to at hostile targets is what the database says of them', { timeout: 600_000 }, async () => {
  const { api, query } = onward;
  const call = (step: (typeof STEPS)[number]) => forward(step, `${targets.get(step)?.url}/hook`, { timeoutMs: 1_000 });
  await publish(api, 'hostile', line(onEvent('hostile'), ...STEPS.map(call)), { reentry: 'always' });
  for (let nth = 1; nth <= RUNS; nth += 1) await api.must('POST', '/events', { id: `h${nth}`, type: 'hostile', contact: { email: `h${nth}@example.test` } });
  await letAllEnd(onward, 540_000);

  const steps = await query<{ key: string; hash: string; node: string; statuses: string[] }>(
    `SELECT idempotency_key AS key, encode(body_hash, 'hex') AS hash, min(node) AS node, array_agg(status ORDER BY n) AS statuses
     FROM outbound_requests JOIN attempts USING (run_id, seq) GROUP BY run_id, seq, idempotency_key, body_hash`,
  );
  const witnessed = [...targets].flatMap(([node, target]) => target.witnessed().map((one) => ({ ...one, node })));
  const byKey = groupByKey(witnessed);

  const wrong: string[] = [];
  for (const { key, hash, node, statuses } of steps) {
    const seen = byKey.get(key) ?? [];
    const say = (what: string) =>
      wrong.push(`${node} ${key}: ${what}; seen ${seen.map(({ behaviour }) => behaviour).join(' ')}, recorded ${statuses.join(' ')}`);
    if (seen.some((one) => one.node !== node)) say('the key went to another target too');
    if (seen.some((one) => one.hash !== hash)) say('another body than was frozen');
    if (seen.length !== statuses.length) say('the number of requests is not the number of attempts');
    if (statuses.filter((status) => status === 'failed').length > 3) say('more than three attempts failed');
    seen.forEach(({ behaviour }, index) => {
      const expected = WELL.includes(behaviour) ? 'done' : 'failed';
      if (statuses[index] !== expected) say(`attempt ${index + 1} is ${statuses[index]}, the target says ${behaviour}`);
    });
    byKey.delete(key);
  }
  for (const [key, seen] of byKey) wrong.push(`${seen[0]?.node} ${key}: seen ${seen.length} times and never recorded`);
  expect(wrong).toEqual([]);
  expect(await checkHistories(onward)).toEqual([]);

  const behaviours = new Set(witnessed.map(({ behaviour }) => behaviour));
  expect(behaviours).toEqual(new Set(Object.keys(BEHAVIOURS)));
  const states = await query<{ state: string; count: number }>('SELECT state, count(*)::int FROM runs GROUP BY state ORDER BY state');
  console.log(`${steps.length} outbound steps, ${witnessed.length} requests; ${states.map(({ state, count }) => `${count} ${state}`).join(', ')}`);
  expect(steps.length).toBeGreaterThanOrEqual(2_000);
});

function groupByKey<One extends { key: string }>(all: readonly One[]): Map<string, One[]> {
  const grouped = new Map<string, One[]>();
  for (const one of all) grouped.set(one.key, [...(grouped.get(one.key) ?? []), one]);
  return grouped;
}
