/** The gate before the targets, which are real HTTP servers. */
import { setMaxListeners } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import type { Outcome } from '@onward/contracts/outcome';
import { type TargetLimits, targetReportSchema } from '@onward/contracts/targets';
import { parseAllowList } from '@onward/egress/allow-list';
import { startValkey } from '@onward/stack/valkey';
import { beforeEach, describe, expect, onTestFinished, test, vi } from 'vitest';
import { performRequest } from '../../src/perform-request.js';
import type { Targets } from '../../src/targets/targets.js';
import { startTargets } from '../parts.js';
import { startTarget, type Target } from '../target.js';

const UNTIL = { timeout: 60_000, interval: 5 };
const nothing = parseAllowList('');

/** The worker's stop signal, and the one that ends sends in flight. */
let stopping: AbortController;
let cut: AbortController;

beforeEach(() => {
  [stopping, cut] = [new AbortController(), new AbortController()];
  setMaxListeners(0, stopping.signal, cut.signal);
});

async function start(options: Parameters<typeof startTarget>[0] = {}): Promise<Target> {
  const target = await startTarget(options);
  onTestFinished(target.close);
  return target;
}

type How = { limits?: Partial<TargetLimits>; timeoutMs?: number; mayReach?: boolean; around?: (send: () => Promise<Outcome>) => Promise<Outcome> };

function send(targets: Targets, target: Target, { limits, timeoutMs = 60_000, mayReach = true, around = (go) => go() }: How = {}): Promise<Outcome> {
  const allow = !mayReach && nothing.ok ? nothing.allow : target.allow;
  return targets.send(
    { ...target.limits, ...limits },
    {
      signals: [stopping.signal],
      whyNot: () => (stopping.signal.aborted ? 'the worker is stopping' : undefined),
      send: () => around(() => performRequest({ ...target.request, timeoutMs }, { allow, signals: [cut.signal], now: () => new Date() })),
    },
  );
}

const times = (count: number, work: () => Promise<Outcome>): Promise<Outcome[]> => Promise.all(Array.from({ length: count }, work));
const byOf = (outcome: Outcome) => (outcome.kind === 'not_sent' ? outcome.blocked?.by : undefined);
const stateOf = (targets: Targets, { limits }: Target) => targets.report().find(({ origin }) => origin === limits.origin)?.breaker ?? 'closed';
const untilItProbes = (targets: Targets, target: Target) => vi.waitUntil(() => stateOf(targets, target) === 'half_open', UNTIL);

/** A target that fails while `isIll`; the breaker is opened by five failures. */
async function startIll(targets: Targets) {
  const state = { isIll: true };
  const target = await start({ answer: (response) => void response.writeHead(state.isIll ? 500 : 200).end() });
  for (let nth = 0; nth < 5; nth++) await send(targets, target);
  expect(stateOf(targets, target)).toBe('open');
  return { target, state };
}

test('a target whose origin is too long to be told is left out of the report, and the others are told', async () => {
  const targets = startTargets();
  const target = await start({ answersAtOnce: false });
  const limits = { ...target.limits, origin: `https://${'a'.repeat(400)}.test` };
  let isOver: (outcome: Outcome) => void = () => undefined;
  const long = targets.send(limits, { signals: [], whyNot: () => undefined, send: () => new Promise((resolve) => (isOver = resolve)) });
  const other = send(targets, target);
  const { response } = await target.nth(1);
  expect(targets.size).toBe(2);
  expect(targetReportSchema.array().parse(targets.report())).toMatchObject([{ origin: target.limits.origin, sending: 1 }]);
  response.writeHead(204).end();
  isOver({ kind: 'done', output: null });
  expect(await Promise.all([long, other])).toMatchObject([{ kind: 'done' }, { kind: 'done' }]);
});

describe('the breaker of a target', () => {
  test('opens by fifty failures at the same time, and then no connection is made', async () => {
    const targets = startTargets();
    const target = await start({ answersAtOnce: false });
    const outcomes = times(50, () => send(targets, target));
    await target.nth(50);
    for (const { response } of target.received) response.writeHead(502).end();
    expect((await outcomes).map((outcome) => outcome.kind)).toEqual(Array(50).fill('failed'));
    const connections = target.connections();
    const blocked = await times(20, () => send(targets, target));
    for (const outcome of blocked) {
      expect(outcome).toEqual({
        kind: 'not_sent',
        why: 'failed too often, at last with: The target answered 502',
        blocked: { origin: target.limits.origin, by: 'breaker', inMs: expect.any(Number), breakerNo: 0 },
      });
    }
    expect([target.connections(), target.received.length]).toEqual([connections, 50]);
    const [report] = targets.report();
    expect(report).toEqual({ origin: target.limits.origin, breaker: 'open', breakerNo: 0, probesInMs: expect.any(Number), sending: 0, queued: 0 });
    expect(report?.probesInMs).toBeGreaterThan(0);
    expect(report?.probesInMs).toBeLessThanOrEqual(30_000);
  });

  test('opens also when nothing listens there', async () => {
    const targets = startTargets();
    const target = await start();
    await target.close();
    const outcomes = [];
    for (let nth = 0; nth < 6; nth++) outcomes.push(await send(targets, target));
    expect(outcomes.map((outcome) => (outcome.kind === 'failed' ? outcome.failure.code : byOf(outcome)))).toEqual([...Array(5).fill('network'), 'breaker']);
  });

  test('lets one probe through once its time is up, and closes by it', async () => {
    const targets = startTargets({ breakerResetMs: 200 });
    const target = await start({ answer: (response, nth) => void (nth === 6 || response.writeHead(nth < 6 ? 500 : 200).end()) });
    for (let nth = 0; nth < 5; nth++) await send(targets, target);
    await untilItProbes(targets, target);
    const blocked: Outcome[] = [];
    const outcomes = times(20, async () => {
      const outcome = await send(targets, target);
      if (byOf(outcome) === 'breaker') blocked.push(outcome);
      return outcome;
    });
    const { response } = await target.nth(6);
    await vi.waitUntil(() => blocked.length === 19, UNTIL);
    expect(target.received.length).toBe(6);
    expect(stateOf(targets, target)).toBe('half_open');
    response.writeHead(200).end();
    expect((await outcomes).filter(({ kind }) => kind === 'done').length).toBe(1);
    expect(stateOf(targets, target)).toBe('closed');
    expect((await times(20, () => send(targets, target))).map(({ kind }) => kind)).toEqual(Array(20).fill('done'));
  });

  test.each([400, 401, 403, 404, 408, 409, 410, 418, 422, 425, 429, 451, 304])('never opens by %s', async (status) => {
    const targets = startTargets();
    const target = await start({ answer: (response) => void response.writeHead(status).end() });
    for (let nth = 0; nth < 20; nth++) expect(await send(targets, target)).toMatchObject({ kind: 'failed' });
    expect(stateOf(targets, target)).toBe('closed');
    expect(target.received.length).toBe(20);
  });

  test('never opens by an address that is not allowed', async () => {
    const targets = startTargets();
    const target = await start();
    for (let nth = 0; nth < 20; nth++) expect(await send(targets, target, { mayReach: false })).toMatchObject({ failure: { code: 'address_not_allowed' } });
    expect(await send(targets, target)).toMatchObject({ kind: 'done' });
  });

  test('does not close by a probe that is stopped, nor by one that may not be sent', async () => {
    const targets = startTargets({ breakerResetMs: 200 });
    const state = { isHanging: false };
    const target = await start({ answer: (response) => void (state.isHanging || response.writeHead(500).end()) });
    for (let nth = 0; nth < 5; nth++) await send(targets, target);
    await untilItProbes(targets, target);
    expect(await send(targets, target, { mayReach: false })).toMatchObject({ failure: { code: 'address_not_allowed' } });
    expect(stateOf(targets, target)).toBe('half_open');
    state.isHanging = true;
    const stopped = send(targets, target);
    await target.nth(6);
    cut.abort();
    expect(await stopped).toMatchObject({ kind: 'uncertain' });
    expect(stateOf(targets, target)).toBe('half_open');
    expect(targets.report()[0]).toMatchObject({ probesInMs: null, sending: 0 });
  });

  test('closes again within one reset of when a hanging target is healthy, also when a probe hung', async () => {
    const targets = startTargets({ breakerResetMs: 200 });
    const state = { isHanging: true };
    const target = await start({ answer: (response) => void (state.isHanging || response.writeHead(200).end()) });
    const outcomes = await times(5, () => send(targets, target, { timeoutMs: 150 }));
    expect(outcomes.map((outcome) => (outcome.kind === 'failed' ? outcome.failure.code : outcome.kind))).toEqual(Array(5).fill('timeout'));
    expect(stateOf(targets, target)).toBe('open');
    await untilItProbes(targets, target);
    expect(await send(targets, target, { timeoutMs: 150 })).toMatchObject({ failure: { code: 'timeout' } });
    expect(stateOf(targets, target)).toBe('open');
    state.isHanging = false;
    const { probesInMs } = targets.report()[0] ?? {};
    expect(probesInMs).toBeLessThanOrEqual(200);
    await untilItProbes(targets, target);
    expect(await send(targets, target)).toMatchObject({ kind: 'done' });
    expect(stateOf(targets, target)).toBe('closed');
  });

  test('is replaced by a closed one when the backend hands over a higher number, and by none when it is lower', async () => {
    const targets = startTargets();
    const { target, state } = await startIll(targets);
    expect(byOf(await send(targets, target))).toBe('breaker');
    state.isIll = false;
    expect(await send(targets, target, { limits: { breakerNo: 3 } })).toMatchObject({ kind: 'done' });
    state.isIll = true;
    for (let nth = 0; nth < 4; nth++) expect(await send(targets, target, { limits: { breakerNo: 2 } })).toMatchObject({ kind: 'failed' });
    expect(await send(targets, target, { limits: { breakerNo: 2 } })).toMatchObject({ kind: 'not_sent', blocked: { by: 'breaker', breakerNo: 3 } });
    expect(targets.report()).toMatchObject([{ breaker: 'open', breakerNo: 3 }]);
  });

  test('that is open blocks nobody when the worker stops: its runs are only given back', async () => {
    const targets = startTargets();
    const { target } = await startIll(targets);
    stopping.abort();
    expect(await send(targets, target)).toEqual({ kind: 'not_sent', why: 'the worker is stopping' });
  });

  test('lets nothing out to those who wait for a place when it opens', async () => {
    const targets = startTargets();
    const target = await start({ answer: (response, nth) => void (nth < 5 && response.writeHead(500).end()) });
    const limits = { maxConcurrent: 1 };
    for (let nth = 0; nth < 4; nth++) await send(targets, target, { limits });
    const last = send(targets, target, { limits });
    const queued = times(3, () => send(targets, target, { limits }));
    const { response } = await target.nth(5);
    response.writeHead(500).end();
    await last;
    expect((await queued).map(byOf)).toEqual(['breaker', 'breaker', 'breaker']);
    expect(target.received.length).toBe(5);
  });
});

describe('the places at a target', () => {
  test('are all that a hanging target takes: with 200 runs in hand a send to another target goes out at once', async () => {
    const targets = startTargets({ concurrency: 200 });
    const hanging = await start({ answersAtOnce: false });
    const other = await start();
    const outcomes = times(199, () => send(targets, hanging));
    await hanging.nth(50);
    const first = await Promise.race([send(targets, other), outcomes.then(() => 'the others')]);
    expect(first).toMatchObject({ kind: 'done' });
    expect(targets.report()).toMatchObject([{ origin: hanging.limits.origin, sending: 50, queued: 149 }]);
    await vi.waitUntil(() => targets.report()[0]?.queued === 0, UNTIL);
    expect(hanging.received.length).toBe(50);
    cut.abort();
    const all = await outcomes;
    expect(all.filter(({ kind }) => kind === 'uncertain').length).toBe(50);
    const busy = all.flatMap((outcome) => (outcome.kind === 'not_sent' && outcome.blocked ? [outcome.blocked] : []));
    expect(busy.length).toBe(149);
    for (const { by, inMs } of busy) {
      expect(by).toBe('busy');
      expect(inMs).toBeGreaterThanOrEqual(1_000);
      expect(inMs).toBeLessThan(3_000);
    }
    expect(new Set(busy.map(({ inMs }) => inMs)).size).toBeGreaterThan(20);
  });

  test('drop nobody: in a long queue each has an outcome, and what was done was sent', async () => {
    const targets = startTargets();
    const target = await start();
    const outcomes = await times(2_000, () => send(targets, target, { limits: { maxConcurrent: 3 } }));
    const done = outcomes.filter(({ kind }) => kind === 'done').length;
    expect(done + outcomes.filter((outcome) => byOf(outcome) === 'busy').length).toBe(2_000);
    expect(done).toBe(target.received.length);
    expect(done).toBeGreaterThan(3);
    expect(targets.report()).toEqual([]);
  });

  test('are never exceeded, also when sends time out', async () => {
    const targets = startTargets();
    const target = await start({ answer: (response, nth) => void (nth % 3 === 0 || response.writeHead(200).end()) });
    let now = 0;
    let most = 0;
    const around = async (go: () => Promise<Outcome>) => {
      now += 1;
      most = Math.max(most, now);
      try {
        return await go();
      } finally {
        now -= 1;
      }
    };
    const outcomes = await times(60, () => send(targets, target, { limits: { maxConcurrent: 4 }, timeoutMs: 100, around }));
    expect(outcomes.filter(({ kind }) => kind === 'failed').length).toBeGreaterThan(4);
    expect(most).toBe(4);
  });

  test('are kept apart: the time-out of one call ends no other', async () => {
    const targets = startTargets();
    const target = await start({ answersAtOnce: false });
    const slow = send(targets, target);
    const { response } = await target.nth(1);
    for (let nth = 0; nth < 4; nth++) expect(await send(targets, target, { timeoutMs: 100 })).toMatchObject({ failure: { code: 'timeout' } });
    response.writeHead(200).end();
    expect(await slow).toMatchObject({ kind: 'done' });
  });

  test('are a quarter of the runs unless the target has a number of its own', async () => {
    const targets = startTargets({ concurrency: 8 });
    const target = await start({ answersAtOnce: false });
    void times(5, () => send(targets, target));
    await vi.waitUntil(() => targets.report()[0]?.sending === 2, UNTIL);
    expect(targets.report()[0]).toMatchObject({ sending: 2, queued: 3 });
    void times(1, () => send(targets, target, { limits: { maxConcurrent: 4 } }));
    await vi.waitUntil(() => targets.report()[0]?.sending === 4, UNTIL);
    expect(targets.report()[0]).toMatchObject({ sending: 4, queued: 2 });
    cut.abort();
  });

  test.each([429, 503])('are left by those who wait when the target answers %s and asks to be left alone', async (status) => {
    const targets = startTargets();
    const target = await start({ answersAtOnce: false });
    const limits = { maxConcurrent: 1 };
    const first = send(targets, target, { limits });
    const queued = times(3, () => send(targets, target, { limits }));
    const { response } = await target.nth(1);
    response.writeHead(status, { 'retry-after': '7' }).end();
    expect(await first).toMatchObject({ kind: 'failed', failure: { retryAfterMs: 7_000 } });
    const blocked = { origin: target.limits.origin, by: 'held', inMs: 7_000, breakerNo: 0 };
    expect(await queued).toEqual(Array(3).fill({ kind: 'not_sent', why: `answered ${status} and asked to wait`, blocked }));
    expect(target.received.length).toBe(1);
  });

  test('are left at once when the worker stops: nothing blocks them, and what is in flight goes on', async () => {
    const targets = startTargets();
    const target = await start({ answersAtOnce: false });
    const limits = { maxConcurrent: 1 };
    const first = send(targets, target, { limits });
    const queued = times(20, () => send(targets, target, { limits }));
    const { response } = await target.nth(1);
    stopping.abort();
    expect(await queued).toEqual(Array(20).fill({ kind: 'not_sent', why: 'the worker is stopping' }));
    expect(await send(targets, target, { limits })).toEqual({ kind: 'not_sent', why: 'the worker is stopping' });
    response.writeHead(204).end();
    expect(await first).toMatchObject({ kind: 'done' });
    expect(target.received.length).toBe(1);
  });

  test('are no reason to send: right before the first byte it is asked again whether it may be sent', async () => {
    const targets = startTargets();
    const target = await start({ answersAtOnce: false });
    const limits = { ...target.limits, maxConcurrent: 1 };
    const first = send(targets, target, { limits });
    const { response } = await target.nth(1);
    let why: string | undefined;
    let isSent = false;
    const send2 = async (): Promise<Outcome> => {
      isSent = true;
      return { kind: 'done', output: null };
    };
    const second = targets.send(limits, { signals: [], whyNot: () => why, send: send2 });
    why = 'the lease was not confirmed in time';
    response.writeHead(200).end();
    await first;
    expect(await second).toEqual({ kind: 'not_sent', why });
    expect(isSent).toBe(false);
  });

  test('are given back by what throws', async () => {
    const targets = startTargets();
    const target = await start();
    const limits = { maxConcurrent: 1 };
    await expect(send(targets, target, { limits, around: () => Promise.reject(new Error('a fail point')) })).rejects.toThrow('a fail point');
    expect(await send(targets, target, { limits })).toMatchObject({ kind: 'done' });
  });
});

describe('the rate of a target', () => {
  async function startWithValkey() {
    const folder = mkdtempSync(join(tmpdir(), 'targets-'));
    const valkey = await startValkey({ dataDir: join(folder, 'valkey') });
    onTestFinished(async () => {
      await valkey.stop();
      rmSync(folder, { recursive: true, force: true });
    });
    return startTargets({ valkeyUrl: valkey.url });
  }

  test('is waited for with the place in hand when the instant is near, and blocks when it is far', async () => {
    const targets = await startWithValkey();
    const target = await start();
    const limits = { maxConcurrent: 1, ratePerSecond: 2 };
    const near = send(targets, target, { limits });
    await vi.waitUntil(() => targets.report()[0]?.sending === 1, UNTIL);
    expect(await near).toMatchObject({ kind: 'done' });
    const far = await send(targets, target, { limits: { ratePerSecond: 0.001 } });
    expect(far).toMatchObject({ kind: 'not_sent', why: 'is sent 0.001 requests a second at most', blocked: { by: 'rate', breakerNo: 0 } });
    expect(far.kind === 'not_sent' && far.blocked?.inMs).toBeGreaterThan(1_000);
    expect(target.received.length).toBe(1);
  });

  test('is no reason to stay when the worker stops', async () => {
    const targets = startTargets();
    const target = await start();
    const outcome = send(targets, target, { limits: { ratePerSecond: 1 } });
    await vi.waitUntil(() => targets.report()[0]?.sending === 1, UNTIL);
    stopping.abort();
    expect(await outcome).toEqual({ kind: 'not_sent', why: 'the worker is stopping' });
    expect(target.connections()).toBe(0);
  });

  test('is shared out among the workers while Valkey is away', async () => {
    const targets = startTargets({ workers: () => 4 });
    const target = await start();
    expect(await send(targets, target, { limits: { ratePerSecond: 2 } })).toMatchObject({ kind: 'not_sent', blocked: { by: 'rate', inMs: 2_000 } });
    expect(await send(targets, target, { limits: { ratePerSecond: 20_000 } })).toMatchObject({ kind: 'done' });
  });
});

describe('the targets', () => {
  test('that are told of are those not well, then those with most in hand, a hundred at most; idle ones are left out', async () => {
    const targets = startTargets();
    const { target: ill } = await startIll(targets);
    const idle = await start();
    await send(targets, idle);
    expect(targets.report().map(({ origin }) => origin)).toEqual([ill.limits.origin]);
    const hanging = new Promise<Outcome>(() => undefined);
    const hold = (origin: string) => void targets.send({ ...ill.limits, origin }, { signals: [], whyNot: () => undefined, send: () => hanging });
    for (let nth = 0; nth < 120; nth++) hold(`http://host-${nth}.test`);
    for (let nth = 0; nth < 3; nth++) hold('http://busy.test');
    await vi.waitUntil(() => targets.report()[1]?.sending === 3, UNTIL);
    const reports = targets.report();
    expect(reports.length).toBe(100);
    expect(reports.slice(0, 3)).toMatchObject([
      { origin: ill.limits.origin, breaker: 'open' },
      { origin: 'http://busy.test', sending: 3 },
      { breaker: 'closed', sending: 1 },
    ]);
  });

  test('that are remembered are bounded: 100,000 of them leave the heap as it was', async () => {
    setFlagsFromString('--expose-gc');
    const gc = runInNewContext('gc') as () => void;
    const targets = startTargets();
    const limits = { ratePerSecond: null, maxConcurrent: null, breakerNo: 0 };
    const visit = async (from: number, to: number) => {
      for (let nth = from; nth < to; nth += 500) {
        const one = (origin: string) =>
          targets.send({ ...limits, origin }, { signals: [stopping.signal], whyNot: () => undefined, send: async () => ({ kind: 'done', output: null }) });
        await Promise.all(Array.from({ length: 500 }, (_, of) => one(`https://host-${nth + of}.example.test`)));
      }
      gc();
      return process.memoryUsage().heapUsed;
    };
    const before = await visit(0, 10_000);
    let grownBy = 0;
    for (let nth = 10_000; nth < 100_000; nth += 10_000) {
      grownBy = (await visit(nth, nth + 10_000)) - before;
      expect(targets.size).toBe(1_000);
      expect(grownBy).toBeLessThan(10_000_000);
    }
    process.stdout.write(`the heap grew by ${Math.round(grownBy / 1_000)} kB over 90,000 targets\n`);
  }, 600_000);

  test('that have something in hand are never forgotten, however many there are', async () => {
    const targets = startTargets();
    const target = await start({ answersAtOnce: false });
    const limits = { maxConcurrent: 1 };
    const first = send(targets, target, { limits });
    const { response } = await target.nth(1);
    const done: Outcome = { kind: 'done', output: null };
    for (let nth = 0; nth < 1_100; nth++) {
      await targets.send({ ...target.limits, origin: `http://host-${nth}.test` }, { signals: [], whyNot: () => undefined, send: async () => done });
    }
    const second = send(targets, target, { limits });
    await vi.waitUntil(() => targets.report()[0]?.queued === 1, UNTIL);
    response.writeHead(200).end();
    expect(await first).toMatchObject({ kind: 'done' });
    (await target.nth(2)).response.writeHead(200).end();
    expect(await second).toMatchObject({ kind: 'done' });
  });
});
