import { afterAll, beforeAll, describe, test } from 'vitest';
import type { RuntimePattern } from '@onward/contracts/patterns';
import type { Answer } from '@onward/wire/signing';
import { change } from '../../src/database/sql.js';
import { type BackendForTest, backendForTest } from '../backend-for-test.js';
import { FrameProxy, isTurnedAway, type Struck, type WireFault } from './frame-proxy.js';
import { type Asking, HandDriver, HandGateway, startTarget, type Target } from './hand-driver.js';
import { type Graph, line, publish, startRun, tag, wait } from './hand-worker.js';
import { directClient, type OuterWorld, outerWorld } from './outer-world.js';

/**
 * Every call that can be lost, repeated, late or out of date on its way, on the wire, one at a time. The run is driven with each pattern
 * alone, and once more with the two frames in which they usually travel, and must end as if nothing had been.
 */
const CELLS = {
  'request lost': 'lose the request',
  'committed and reply lost': 'lose the reply',
  'reply repeated': 'repeat the reply',
  'reply late, after a new claim': 'hold the reply',
  'request repeated byte for byte': 'repeat the request',
  'request repeated signed anew': 'repeat the request signed anew',
  'stale epoch, taken over before the request arrives': 'hold the request',
} as const satisfies Record<string, WireFault>;
type Cell = keyof typeof CELLS;

type JourneyName = 'good' | 'refused' | 'givenUp' | 'stands';
/** Where a call is made: in which journey, of which step, and the how-manieth time it is made of that step. */
type Place = { journey?: JourneyName; node: string; nth?: number };

const PLACES: Record<Asking, readonly Place[]> = {
  'automation.runtime.run.prepare': [{ node: 'start' }, { node: 'call' }, { node: 'greet' }, { node: 'rest' }],
  'automation.runtime.plan.get': [{ node: 'mark' }, { node: 'call' }],
  'automation.runtime.action.execute': [{ node: 'mark' }, { node: 'call' }, { node: 'greet' }, { node: 'rest' }],
  'automation.runtime.attempt.latest': [{ node: 'call' }],
  'automation.runtime.attempt.create': [{ node: 'mark' }, { node: 'call', nth: 2 }],
  'automation.runtime.attempt.update': [{ node: 'mark' }, { node: 'call' }, { node: 'call', nth: 2 }, { node: 'greet' }],
  'automation.runtime.run.advance': [{ node: 'mark' }, { node: 'call' }, { node: 'close' }],
  'automation.runtime.run.wait': [{ node: 'rest' }, { node: 'greet' }],
  'automation.runtime.run.succeed': [{ journey: 'stands', node: 'finish' }],
  'automation.runtime.run.fail': [{ journey: 'refused', node: 'call' }],
  'automation.runtime.run.retry': [{ node: 'call' }],
  'automation.runtime.run.dead-letter': [{ journey: 'givenUp', node: 'call' }],
  'automation.runtime.run.notify-failed': [
    { journey: 'refused', node: 'call' },
    { journey: 'givenUp', node: 'call' },
  ],
  'mail.message.begin': [{ node: 'greet' }],
  'mail.message.end': [{ node: 'greet' }],
  'begin frame': [{ node: 'start' }, { node: 'call' }, { node: 'rest' }],
  'record frame': [
    { node: 'mark' },
    { node: 'call' },
    { node: 'call', nth: 2 },
    { node: 'greet' },
    { node: 'rest' },
    { node: 'close' },
    { journey: 'refused', node: 'call' },
    { journey: 'givenUp', node: 'call', nth: 3 },
  ],
};

const ENDS = { good: 'succeeded', refused: 'failed', givenUp: 'dead_lettered', stands: 'succeeded' } as const;

/** What a call is answered once somebody else has the run. A mail's try that another delivery has is `already` somebody's. */
const STALE: Partial<Record<Asking, object>> = {
  'automation.runtime.run.prepare': { kind: 'refused', reason: 'lower_call' },
  'automation.runtime.run.notify-failed': { kind: 'refused', reason: 'stale_claim' },
  'mail.message.begin': { kind: 'already', state: 'sent' },
  'mail.message.end': { kind: 'already', state: 'sent' },
  'begin frame': { kind: 'refused', reason: 'lower_call' },
};

let onward: BackendForTest;
let target: Target;
let world: OuterWorld;
const workflows = new Map<JourneyName, string>();

beforeAll(async () => {
  onward = await backendForTest({ AUTOMATIONS_SWEEP_INTERVAL_MS: '1000000', AUTOMATIONS_LEASE_MS: '120000', AUTOMATIONS_NOTIFY_TO: 'desk@example.test' });
  target = await startTarget();
  world = outerWorld(onward, target);
  await onward.api('POST', '/templates', { name: 'hello', subject: 'Hello {{ contact.attributes.name }}', text: 'Hello' });
  // What is emitted is stored only while something wants it.
  for (const event of ['tag.added', 'run.succeeded', 'run.failed']) {
    const nodes = [
      { id: 'start', type: 'trigger', config: { type: 'event', event } },
      { id: 'finish', type: 'end' },
    ];
    await publish(onward, { nodes, edges: [{ from: 'start', to: 'finish' }] }, { reentry: 'always' }, `hears ${event}`);
  }
  const call = (script: string) => ({
    id: 'call',
    type: 'action',
    config: { action: 'FORWARD_REQUEST', with: { url: `${target.url}/${script}/{{ run.id }}` } },
  });
  const greet = { id: 'greet', type: 'action', config: { action: 'SEND_MAIL', with: { template: 'hello' } } };
  const journeys: Record<JourneyName, Graph> = {
    good: line(tag('mark'), call('503'), greet, wait('rest', '1h'), tag('close')),
    refused: line(tag('mark'), call('always-404')),
    givenUp: line(tag('mark'), call('always-503')),
    stands: line(tag('mark')),
  };
  for (const [name, graph] of Object.entries(journeys)) workflows.set(name as JourneyName, await publish(onward, graph, { reentry: 'always' }, name));
});
afterAll(async () => {
  target?.close();
  await onward?.close();
});

for (const asking of Object.keys(PLACES) as Asking[]) {
  describe.concurrent(`${asking}`, () => {
    for (const cell of Object.keys(CELLS) as Cell[]) {
      test(`${asking}: ${cell}`, { timeout: 120_000 }, async ({ expect }) => {
        await Promise.all(PLACES[asking].map((place) => strikeAt(asking, place, cell, expect)));
      });
    }
  });
}

type Expect = Parameters<Parameters<typeof test>[2] & object>[0]['expect'];

async function strikeAt(asking: Asking, place: Place, cell: Cell, expect: Expect): Promise<void> {
  const journey = place.journey ?? 'good';
  const { runId, contactId } = await startRun(onward, workflows.get(journey) ?? '');
  const proxy = await FrameProxy.open({ port: onward.backend.rpcPort, secret: onward.settings.rpcSecrets[0] });
  const [proxied, direct] = [directClient(onward, proxy.port), directClient(onward)];
  try {
    const striking = strikeOnce(asking, place, () => proxy.strike(CELLS[cell]));
    const endsByHand = journey === 'stands' ? { endsByHand: { node: 'mark', place: standOnEnd } } : {};
    const manner = asking.endsWith(' frame') ? 'frames' : 'alone';
    const first = { driver: new HandDriver(proxied, { manner, watch: striking.watch, ...endsByHand }), gateway: new HandGateway(proxied, striking.watch) };
    const other = { driver: new HandDriver(direct, endsByHand), gateway: new HandGateway(direct) };
    const sends = () => [...first.gateway.sends, ...other.gateway.sends];
    const isTakenOver = CELLS[cell] === 'hold the reply' || CELLS[cell] === 'hold the request';

    const driven = world.carryOn(runId, { ...first, isOver: () => isTakenOver && striking.struck() !== undefined });
    if (isTakenOver) {
      const struck = await Promise.race([striking.begun, driven.then(() => Promise.reject(new Error(`${asking} was not reached at ${place.node}`)))]);
      await struck.happened;
      const taken = await takeOver(asking, runId, struck, other);
      struck.release();
      const left = await driven;
      if (struck.fault === 'hold the request') expect(firstReplyOf(struck.answers[0])).toEqual(STALE[asking] ?? { kind: 'refused', reason: 'stale_epoch' });
      // Whoever is late goes no further than its next call.
      if (taken && left) expect(left).toMatchObject({ kind: expect.stringMatching(/^(refused|rests)$/) });
      if (taken && left?.kind === 'rests')
        expect(asking).toMatch(/^(automation\.runtime\.run\.(wait|retry|advance|fail|dead-letter|notify-failed)|mail\..*|record frame)$/);
      if (taken) await other.driver.finish(taken);
      await world.carryOn(runId, other);
    } else {
      await driven;
      expectSame(asking, striking.struck(), expect);
    }
    expect((await world.readRun(runId)).state).toBe(ENDS[journey]);
    expect(await world.breachesOf(runId, contactId, sends())).toEqual([]);
    const attempts = await world.readAttempts(runId);
    if (!isTakenOver) {
      expect(attempts.filter(({ status }) => status === 'uncertain')).toEqual([]);
      expect(target.requestsOf(runId)).toHaveLength(attempts.filter(({ node }) => node === 'call').length);
      expect(sends()).toHaveLength((await world.readMessages(runId)).length);
    }
  } finally {
    proxied.close();
    direct.close();
    await proxy.close();
  }
}

/** Strikes when the call is made at its place, once. */
function strikeOnce(asking: Asking, { node, nth = 1 }: Place, strike: () => Struck) {
  let struck: Struck | undefined;
  let made = 0;
  let begin: (struck: Struck) => void = () => undefined;
  const begun = new Promise<Struck>((resolve) => {
    begin = resolve;
  });
  const watch = (asked: Asking, at: string) => {
    if (asked !== asking || at !== node) return;
    made += 1;
    if (made !== nth) return;
    struck = strike();
    begin(struck);
  };
  return { watch, begun, struck: () => struck };
}

/** What takes the run, or the mail, from whoever is kept waiting. */
async function takeOver(asking: Asking, runId: string, struck: Struck, { driver, gateway }: { driver: HandDriver; gateway: HandGateway }) {
  const isMail = asking === 'mail.message.begin' || (asking === 'mail.message.end' && struck.fault === 'hold the request');
  if (!isMail) return world.takeOver(runId, driver, gateway);
  if (asking === 'mail.message.end' || struck.fault === 'hold the reply') await world.lapseMail(runId);
  const [message] = await world.readMessages(runId);
  await gateway.deliver({ messageId: message?.id ?? '', try: message?.try ?? 0 });
  return null;
}

async function standOnEnd(runId: string): Promise<void> {
  await change(onward.source, `UPDATE runs SET node = 'finish', seq = seq + 1, n = 1 WHERE id = $1`, [runId]);
}

/** The answers to one call that came twice. */
function expectSame(asking: Asking, struck: Struck | undefined, expect: Expect): void {
  if (!struck) throw new Error(`${asking} was not reached`);
  const [one, two] = struck.answers;
  if (struck.fault === 'repeat the request') {
    expect(struck.answers).toHaveLength(2);
    expect(struck.answers.filter(isTurnedAway)).toHaveLength(1);
  }
  if (struck.fault !== 'lose the reply' && struck.fault !== 'repeat the request signed anew') return;
  expect(struck.answers).toHaveLength(2);
  if (!one || !two || !('reply' in one) || !('reply' in two)) throw new Error(`${asking} was answered with an error: ${JSON.stringify(struck.answers)}`);
  const both = [one.reply, two.reply];
  // These two say whether it was this call that did it; a notice may have been sent by the sweeper meanwhile.
  if (asking === 'automation.runtime.run.notify-failed') {
    expect(both).toContainEqual({ kind: 'notified', sent: false });
    expect(both).toEqual([expect.objectContaining({ kind: 'notified' }), expect.objectContaining({ kind: 'notified' })]);
  } else if (asking === 'mail.message.end') expect(both).toEqual(expect.arrayContaining([{ kind: 'stored' }, { kind: 'already', state: 'sent' }]));
  else expect(asRepeated(one.reply)).toEqual(asRepeated(two.reply));
}

type Reply = { kind: string; outcome?: unknown };

/** The only difference a repeated frame may show: the attempt it begins has its outcome by now, the same that the next item answers. */
function asRepeated(reply: unknown): unknown {
  const framed = repliesOf(reply);
  if (!framed) return reply;
  const performed = framed.find(({ kind }) => kind === 'outcome');
  return framed.map((one) => (one.kind === 'attempt' && performed ? { ...one, outcome: performed.outcome } : one));
}

function repliesOf(reply: unknown): Reply[] | undefined {
  const { runs } = reply as { runs?: { replies: { reply: Reply }[] }[] };
  return runs?.[0]?.replies.map((one) => one.reply);
}

function firstReplyOf(answer: Answer | undefined): unknown {
  const reply = answer && 'reply' in answer ? answer.reply : answer;
  return repliesOf(reply)?.[0] ?? reply;
}

test('the table holds every pattern', ({ expect }) => {
  const patterns = Object.keys(PLACES).filter((asking) => !asking.endsWith(' frame')) as (RuntimePattern | Asking)[];
  expect(patterns).toHaveLength(15);
});
