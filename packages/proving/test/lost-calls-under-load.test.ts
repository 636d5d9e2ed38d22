import { randomBytes } from 'node:crypto';
import { freePort } from '@onward/stack/free-port';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { checkSentOnce, checkTagsAddedOnce } from '../src/check-effects.js';
import { checkHistories } from '../src/check-histories.js';
import { countLargestShared } from '../src/commit-log.js';
import { createDraw, type Draw } from '../src/draw.js';
import { install, type Installation, LEASE_MS } from '../src/installation.js';
import { forward, line, mailTo, makeTemplate, onEvent, publish, tag, wait } from '../src/journeys.js';
import { letAllEnd } from '../src/let-all-end.js';
import { type Call, CALLS, callsIn, countRuns } from '../src/name-calls.js';
import { sendEvent } from '../src/send-events.js';
import { startWireProxy, WIRE_FAULTS, type WireFault, type WireProxy } from '../src/wire-proxy.js';
import { scaled } from './scaled.js';
import { seeds } from './seeds.js';

/**
 * The table of lost calls at burst load: whatever is lost, repeated or late between workers, gateway and backend, every run ends as it would have,
 * while frames hold many runs and these share transactions. Each call of the table is struck at passings that the seed draws.
 *
 * As long as nobody's lease lapses each effect happens exactly once. A stall outlasts every lease: then what has left may be repeated under its key.
 */
const BURST = scaled(100, 300);
/** Strikes of each call in a burst; a stall holds up everything, so there is one of any call. */
const STRIKES = 4;
const JOURNEYS = {
  good: { outOfTen: 7, ends: 'succeeded' },
  refused: { outOfTen: 2, ends: 'failed' },
  'given-up': { outOfTen: 1, ends: 'dead_lettered' },
} as const;
const names = Object.keys(JOURNEYS) as (keyof typeof JOURNEYS)[];
const deck = names.flatMap((name) => Array.from({ length: JOURNEYS[name].outOfTen }, () => name));
const faults = scaled<readonly WireFault[]>(['lose the request', 'lose the reply'], Object.keys(WIRE_FAULTS) as WireFault[]);

for (const seed of seeds()) {
  describe(`seed ${seed}`, () => {
    const draw = createDraw(seed);
    let onward: Installation;
    let proxy: WireProxy;
    let striking: Striking | undefined;

    beforeAll(async () => {
      const [toPort, secret] = [await freePort(), randomBytes(32).toString('base64url')];
      proxy = await startWireProxy({ toPort, secret, stallMs: 1.5 * LEASE_MS, strike: (request) => striking?.meet(request) });
      onward = await install({
        postgresUrl: process.env['ONWARD_TEST_POSTGRES_URL'] ?? '',
        valkeyUrl: `${process.env['ONWARD_TEST_VALKEY_URL']}/13`,
        workers: 2,
        env: {
          BACKEND_MICROSERVICE_PORT: String(toPort),
          BACKEND_MICROSERVICE_TARGET_PORT: String(proxy.port),
          BACKEND_MICROSERVICE_SECRET: secret,
          AUTOMATIONS_NOTIFY_TO: 'desk@example.test',
        },
      });
      await makeTemplate(onward.api, 'hello');
      await publish(onward.api, 'hears of tags', line(onEvent('tag.added')), { reentry: 'always' });
      const keys = new Set<string>();
      onward.target.mode(({ path, headers }, nth) => {
        if (path === '/refused') return { kind: 'status', status: 404 };
        const key = headers['idempotency-key'] ?? '';
        const isFirst = !keys.has(key);
        keys.add(key);
        if (path === '/given-up' || (isFirst && key.endsWith('0'))) return { kind: 'status', status: 503 };
        // Some take long enough for leases to be renewed meanwhile.
        return { kind: 'late', delayMs: nth % 10 === 0 ? LEASE_MS / 2 : nth % 50 };
      });
    }, 180_000);
    afterAll(async () => {
      await onward?.close();
      await proxy?.stop();
    }, 180_000);

    test.each(faults)(`seed ${seed}: %s`, { timeout: 300_000 }, async (fault) => {
      const { api, apis, query, target } = onward;
      const isStall = fault.startsWith('stall');
      const about = fault.replaceAll(' ', '-');
      for (const name of names) {
        const steps =
          name === 'good'
            ? [
                tag('mark', `${about}-marked`),
                forward('call', `${target.url}/good`),
                mailTo('greet', 'hello'),
                wait('rest', '2s'),
                tag('close', `${about}-closed`),
              ]
            : [tag('mark', `${about}-marked`), forward('call', `${target.url}/${name}`)];
        // Published anew, so that workers ask for the plan anew.
        await publish(api, `${about} ${name}`, line(onEvent(`${about}.${name}`), ...steps), { reentry: 'always' });
      }
      striking = new Striking(fault, draw, isStall ? [draw.pick(CALLS)] : CALLS, isStall ? 1 : STRIKES);
      const sent = await Promise.all(
        Array.from({ length: BURST }, (_, nth) => {
          const id = `${about}-${nth}`;
          const contact = { email: `${id}@example.test`, attributes: { name: id } };
          return sendEvent(apis, { id, type: `${about}.${deck[nth % deck.length]}`, contact });
        }),
      );
      expect(sent.filter(({ isAccepted }) => !isAccepted)).toEqual([]);
      await letAllEnd(onward, 200_000, { hasGatewayLived: true });
      await onward.until('no mail is on its way', async () => (await query(`SELECT 1 FROM messages WHERE state IN ('prepared', 'begun')`)).length === 0);
      const { struck } = striking;
      striking = undefined;

      const ended = await query<{ type: string; state: string; count: number }>(
        `SELECT split_part(name, ' ', 2) AS type, state, count(*)::int FROM runs JOIN workflows ON workflows.id = workflow_id WHERE name LIKE $1 GROUP BY 1, 2`,
        [`${about} %`],
      );
      const expected = names.map((name) => ({ type: name, state: JOURNEYS[name].ends, count: (BURST * JOURNEYS[name].outOfTen) / 10 }));
      expect(ended.sort((a, b) => a.type.localeCompare(b.type))).toEqual(expected.sort((a, b) => a.type.localeCompare(b.type)));
      expect(await checkHistories(onward)).toEqual([]);
      expect(await checkTagsAddedOnce(query)).toEqual([]);
      if (!isStall) expect(await checkSentOnce(onward)).toEqual([]);
      // It was a burst: frames held many runs, and their transactions more.
      if (!isStall) expect(CALLS.filter((call) => !struck.some((one) => one.call === call))).toEqual([]);
      const shared = await countLargestShared(query);
      expect(shared).toBeGreaterThan(10);
      const fullest = Math.max(...struck.map(({ runs }) => runs));
      console.log(`${fault}: ${struck.length} calls struck, ${fullest} runs in the fullest; ${shared} runs in the fullest transaction so far`);
    });
  });
}

/** Strikes each of some calls a few times, at passings that are drawn. */
class Striking {
  readonly struck: { call: Call; runs: number }[] = [];
  private readonly plans: Map<Call, { passingsLeft: number; strikesLeft: number }>;

  constructor(
    private readonly fault: WireFault,
    private readonly draw: Draw,
    calls: readonly Call[],
    strikes: number,
  ) {
    // Early the first time, since some calls are made a few times only.
    this.plans = new Map(calls.map((call) => [call, { passingsLeft: draw.integer(1, 2), strikesLeft: strikes }]));
  }

  meet(request: Parameters<typeof callsIn>[0]): WireFault | undefined {
    for (const call of callsIn(request)) {
      const plan = this.plans.get(call);
      if (!plan || plan.strikesLeft === 0) continue;
      plan.passingsLeft -= 1;
      if (plan.passingsLeft > 0) continue;
      Object.assign(plan, { passingsLeft: this.draw.integer(2, 12), strikesLeft: plan.strikesLeft - 1 });
      this.struck.push({ call, runs: countRuns(request) });
      return this.fault;
    }
    return undefined;
  }
}
