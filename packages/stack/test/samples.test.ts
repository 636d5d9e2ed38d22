import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { CHECKOUT } from '../src/instance.js';
import type { Attempt, Run } from '../src/samples/api-answers.js';
import { compareArrivals, countMails } from '../src/samples/compare-arrivals.js';
import { compareRun } from '../src/samples/compare-run.js';
import { isAtRest } from '../src/samples/follow-runs.js';
import { type ExpectedRun, readSamples } from '../src/samples/read-samples.js';
import { tellNextMove, tellRefusal, tellRun } from '../src/samples/tell-run.js';

const SINK = 'http://127.0.0.1:8026';
const NOW = new Date('2026-12-01T08:00:00.000Z');

function attempt(seq: number, node: string, nodeType: string, extra: Partial<Attempt> = {}): Attempt {
  return {
    seq,
    n: 1,
    node,
    nodeType,
    status: 'done',
    port: 'next',
    verb: 'advance',
    input: null,
    output: null,
    failure: null,
    mark: null,
    replayOf: null,
    startedAt: NOW.toISOString(),
    endedAt: NOW.toISOString(),
    ...extra,
  };
}

function run(extra: Partial<Run> = {}): Run {
  return {
    id: 'r-1',
    workflowId: 'w-1',
    workflowName: 'Order follow-up',
    versionId: 'v-1',
    versionNumber: 1,
    contactId: 'c-1',
    state: 'succeeded',
    why: 'ended well',
    node: 'done',
    dueAt: null,
    isHeld: false,
    waitReason: null,
    endedAt: NOW.toISOString(),
    createdAt: NOW.toISOString(),
    context: {
      event: { id: 'e-1', type: 'order.paid' },
      contact: { externalId: 'sample-0001', email: 'siobhan@example.test', attributes: { first_name: 'Siobhán', last_name: "O'Neill" } },
    },
    history: [],
    messages: [],
    notices: [],
    ...extra,
  };
}

const GRAPH = {
  nodes: [
    { id: 'tell_shop', config: { action: 'FORWARD_REQUEST' } },
    { id: 'thanks', config: { action: 'SEND_MAIL' } },
    { id: 'tag', config: { action: 'ADD_TAG' } },
    { id: 'move', config: { action: 'MOVE_TO_LIST' } },
  ],
};

/** The story without its first and last line, blanks drawn together. */
function steps(history: readonly Attempt[], extra: Partial<Run> = {}): readonly string[] {
  return tellRun(run({ history, ...extra }), GRAPH)
    .slice(1, -1)
    .map((line) => line.trim().replaceAll(/ +/g, ' '));
}

describe('the story of a run', () => {
  test('names the journey and the contact first and how it ended last', () => {
    const story = tellRun(run(), GRAPH);
    expect(story[0]).toBe("Order follow-up · Siobhán O'Neill <siobhan@example.test>");
    expect(story.at(-1)?.trim()).toBe('→ ended well, Tue 1 Dec 2026 08:00:00 UTC');
  });

  test('tells three failed attempts, the dead letter and the replay, one line each', () => {
    const sent = { method: 'POST', url: `${SINK}/shop/orders/1` };
    const failed = { status: 'failed', input: sent, failure: { code: 'http_retryable', message: 'The target answered 500' }, port: null } as const;
    expect(
      steps([
        attempt(2, 'tell_shop', 'action', { ...failed, n: 1, verb: 'retry' }),
        attempt(2, 'tell_shop', 'action', { ...failed, n: 2, verb: 'retry', startedAt: '2026-12-01T08:00:30.000Z' }),
        attempt(2, 'tell_shop', 'action', { ...failed, n: 3, verb: 'dead-letter', startedAt: '2026-12-01T08:02:30.000Z' }),
        attempt(3, 'tell_shop', 'action', { input: sent, output: { status: 200 }, replayOf: 2 }),
      ]),
    ).toEqual([
      `2 tell_shop request POST ${SINK}/shop/orders/1: attempt 1 of 3 failed: The target answered 500; tried again Tue 1 Dec 2026 08:00:30 UTC`,
      `request POST ${SINK}/shop/orders/1: attempt 2 of 3 failed: The target answered 500; tried again Tue 1 Dec 2026 08:02:30 UTC`,
      `request POST ${SINK}/shop/orders/1: attempt 3 of 3 failed: The target answered 500; it was the last: dead letter`,
      `3 tell_shop replayed from step 2: request POST ${SINK}/shop/orders/1 → 200`,
    ]);
  });

  test('says when a failed attempt will be repeated while the run rests', () => {
    const failed = attempt(2, 'tell_shop', 'action', { status: 'failed', verb: 'retry', port: null, failure: { code: 'network', message: 'nobody listens' } });
    expect(steps([failed], { state: 'retrying', dueAt: '2026-12-01T08:00:30.000Z' })[0]).toMatch(
      /attempt 1 of 3 failed: nobody listens; to be tried again Tue 1 Dec 2026 08:00:30 UTC$/,
    );
  });

  test('tells a mail with its subject, its address and what the mail server said', () => {
    const mail = attempt(4, 'thanks', 'action', { input: { subject: 'Thank you', to: 'a@example.test' }, output: {} });
    const messages = [{ seq: 4, state: 'sent', subject: 'Thank you', to: { address: 'a@example.test' }, response: '250 recorded as 1' }];
    expect(steps([mail], { messages })).toEqual(['4 thanks mail “Thank you” to a@example.test accepted by SMTP (250)']);
    expect(steps([{ ...mail, mark: 'skipped', output: { skipped: 'unsubscribed' } }])).toEqual([
      '4 thanks mail “Thank you” to a@example.test left out: “unsubscribed”',
    ]);
  });

  test('tells what a condition saw, also when there was nothing', () => {
    const condition = attempt(3, 'is_pro', 'condition', { port: 'true', input: [{ field: 'contact.attributes.plan', value: 'pro' }] });
    expect(steps([condition])).toEqual(['3 is_pro saw contact.attributes.plan = “pro” → true']);
    expect(steps([{ ...condition, port: 'false', input: [{ field: 'contact.attributes.plan', value: null }] }])).toEqual([
      '3 is_pro saw no contact.attributes.plan → false',
    ]);
  });

  test('tells a wait that lasts, one that is over, and one whose instant had passed', () => {
    const wait = attempt(3, 'two_days', 'wait', { status: 'waiting', endedAt: null });
    expect(steps([wait], { dueAt: '2026-12-03T08:00:00.000Z' })).toEqual(['3 two_days waits until Thu 3 Dec 2026 08:00:00 UTC']);
    expect(steps([{ ...wait, status: 'done', endedAt: '2026-12-03T08:00:00.000Z' }])).toEqual(['3 two_days waited until Thu 3 Dec 2026 08:00:00 UTC']);
    expect(steps([{ ...wait, status: 'done', endedAt: NOW.toISOString() }])).toEqual(['3 two_days went on at once: the instant it was to wait for had passed']);
  });

  test('tells tags and lists', () => {
    const list = (name: string) => ({ id: name, name });
    const tag = attempt(5, 'tag', 'action', { output: { tag: 'pro', changed: true } });
    const move = attempt(6, 'move', 'action', { output: { from: list('invited'), to: list('attended'), left: true, joined: true } });
    expect(steps([tag, move])).toEqual(['5 tag tag “pro” added', '6 move moved from list “invited” to list “attended”']);
  });

  test('tells why an event started no run', () => {
    const [title, why] = tellRefusal('Welcome', { eventId: 'e-2', externalId: 'sample-0001', reason: 'reentry_never' });
    expect(title).toBe('Welcome · sample-0001');
    expect(why).toMatch(/^ {2}no run for event e-2: this contact has been in the journey before/);
  });

  test('says how to hurry a run that rests, and nothing of one that has ended', () => {
    const where = { apiUrl: 'http://127.0.0.1:3000', keyFile: '.onward/first-api-key', presentVersionId: 'v-1' };
    const move = (extra: Partial<Run>, presentVersionId = 'v-1') => tellNextMove(run({ endedAt: null, ...extra }), { ...where, presentVersionId });
    expect(move({ state: 'waiting', waitReason: 'time' })).toBe(
      'to end the wait now: curl -X POST -H "Authorization: Bearer $(cat .onward/first-api-key)" http://127.0.0.1:3000/api/v1/runs/r-1/wake-now',
    );
    expect(move({ state: 'retrying' })).toMatch(/runs\/r-1\/retry-now$/);
    expect(move({ state: 'dead_lettered' })).toMatch(/-d '\{\}' \S+\/replay$/);
    expect(move({ state: 'failed' }, 'v-2')).toMatch(/-d '\{"versionId":"v-2"\}' \S+\/replay$/);
    expect(move({ state: 'waiting', waitReason: 'mail' })).toBeUndefined();
    expect(move({ state: 'succeeded' })).toBeUndefined();
  });
});

describe('a run is at rest', () => {
  const later = '2026-12-01T09:00:00.000Z';
  const rests = (extra: Partial<Run>) => isAtRest(run(extra), NOW);

  test('when it has ended, or waits for what lies ahead', () => {
    expect(rests({ state: 'dead_lettered' })).toBe(true);
    expect(rests({ state: 'waiting', waitReason: 'time', dueAt: later })).toBe(true);
    expect(rests({ state: 'retrying', dueAt: later })).toBe(true);
    expect(rests({ state: 'pending', isHeld: true })).toBe(true);
  });

  test('not when it is due, under way, or its mail is', () => {
    expect(rests({ state: 'running' })).toBe(false);
    expect(rests({ state: 'waiting', waitReason: 'time', dueAt: NOW.toISOString() })).toBe(false);
    expect(rests({ state: 'waiting', waitReason: 'mail', dueAt: null })).toBe(false);
  });
});

describe('the comparison with expected.json', () => {
  const expected: ExpectedRun = {
    state: 'succeeded',
    nodes: ['order_paid', 'tell_shop', 'tell_shop', 'done'],
    mails: [{ to: 'a@example.test', subject: 'Thank you' }],
    requests: [{ method: 'POST', path: '/shop', body: { order: 1, total: '2' }, times: 2 }],
    notices: [{ to: 'team@example.test', subject: 'given up' }],
    tags: ['b', 'a'],
    lists: [],
  };
  const good = run({
    history: [
      attempt(1, 'order_paid', 'trigger'),
      attempt(2, 'tell_shop', 'action', { status: 'failed' }),
      attempt(2, 'tell_shop', 'action', { n: 2 }),
      attempt(3, 'tell_shop', 'action', { replayOf: 2 }),
      attempt(4, 'done', 'end'),
    ],
    messages: [{ seq: 3, state: 'sent', subject: 'Thank you', to: { address: 'a@example.test' }, response: '250' }],
    notices: [{ seq: 2, sentAt: NOW.toISOString() }],
  });
  const contact = { id: 'c-1', tags: ['a', 'b'], lists: [] };

  test('finds nothing to say of a run that went as it should', () => {
    expect(compareRun(good, contact, expected)).toEqual([]);
  });

  test('names every difference of a run', () => {
    const wrong = run({ ...good, state: 'failed', why: 'failed at tell_shop: network', history: good.history.slice(0, 3), messages: [], notices: [] });
    expect(compareRun(wrong, undefined, expected)).toEqual([
      'it is failed, not succeeded: failed at tell_shop: network',
      'nodes: ["order_paid","tell_shop"] instead of ["order_paid","tell_shop","tell_shop","done"]',
      'mails: [] instead of ["Thank you → a@example.test"]',
      'it was notified of 0 times, not 1',
      'tags of the contact: [] instead of ["a","b"]',
    ]);
  });

  test('a mail that was not sent does not count as one', () => {
    const [message] = good.messages;
    const unsent = run({ ...good, messages: message === undefined ? [] : [{ ...message, state: 'uncertain' }] });
    expect(compareRun(unsent, contact, expected)).toEqual(['mails: [] instead of ["Thank you → a@example.test"]', 'the mail "Thank you" is uncertain']);
  });

  test('counts what arrived: nothing missing, nothing twice, nothing else', () => {
    const mails = [
      { to: ['a@example.test'], subject: 'Thank you' },
      { to: ['team@example.test'], subject: 'given up' },
    ];
    const request = { method: 'POST', path: '/shop', body: '{"total":"2","order":1}' };
    expect(countMails([expected])).toBe(2);
    expect(compareArrivals({ mails, requests: [request, request] }, [expected])).toEqual([]);
    expect(compareArrivals({ mails: undefined, requests: [request, request] }, [expected])).toEqual([]);
    const stray = { method: 'GET', path: '/else', body: '' };
    expect(compareArrivals({ mails: [...mails.slice(1), ...mails.slice(1)], requests: [request, stray] }, [expected])).toEqual([
      'mail "Thank you" to a@example.test: arrived 0 times, not 1',
      'mail "given up" to team@example.test: arrived 2 times, not 1',
      'request POST /shop {"order":1,"total":"2"}: arrived 1 times, not 2',
      'request GET /else "": arrived 1 times, not 0',
    ]);
  });
});

describe('the samples', () => {
  const samples = readSamples(join(CHECKOUT, 'samples'), { sinkUrl: SINK, now: NOW });

  test('are three journeys and 1,000 contacts of different ids', () => {
    expect(samples.journeys.map(({ workflow }) => workflow.name)).toEqual(['Welcome series', 'Webinar reminder', 'Order follow-up']);
    expect(new Set(samples.externalIds).size).toBe(1_000);
  });

  test.each(samples.journeys.map((journey) => [journey.workflow.name, journey] as const))(
    '%s: every expected run has its event, its nodes and its templates',
    (_name, journey) => {
      const { expected, events, workflow, templates } = journey;
      expect(events.map(({ id }) => id).sort()).toEqual([...Object.keys(expected.runs), ...Object.keys(expected.refusals)].sort());
      const nodes = workflow.graph.nodes.map(({ id }) => id);
      for (const one of Object.values(expected.runs)) expect(nodes).toEqual(expect.arrayContaining([...one.nodes]));
      for (const { contact } of events) expect(samples.externalIds).toContain(contact.externalId);
      const used = workflow.graph.nodes.flatMap(({ config }) => (config['action'] === 'SEND_MAIL' ? [(config['with'] as { template: string }).template] : []));
      expect(templates.map(({ name }) => name).sort()).toEqual(used.sort());
    },
  );

  test('have the places of this start filled in, and Liquid left alone', () => {
    const text = JSON.stringify(samples.journeys);
    expect(text).not.toMatch(/\{\{(sink|today|tomorrow|yesterday)\}\}/);
    expect(text).toContain(`${SINK}/shop/orders/{{ event.order_id }}`);
    expect(text).toContain('"remind_at":"2026-12-02T09:00"');
  });
});
