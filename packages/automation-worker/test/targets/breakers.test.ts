/** What an outcome says of its target, and what only the breaker itself can show. */
import type { FailureCode } from '@onward/contracts/errors';
import { failed, type Outcome } from '@onward/contracts/outcome';
import { describe, expect, onTestFinished, test, vi } from 'vitest';
import { Breaker, type Verdict, verdictOf } from '../../src/targets/breakers.js';

const ok: Outcome = { kind: 'done', output: null };
const bad = failed('http_retryable', 'The target answered 500', { detail: { status: 500 } });
const refused = failed('address_not_allowed', 'The address is not allowed');

function startBreaker(resetMs = 100): Breaker {
  const breaker = new Breaker(0, resetMs);
  onTestFinished(() => breaker.shutdown());
  return breaker;
}

async function endAll(breaker: Breaker, outcomes: readonly Outcome[]): Promise<void> {
  for (const outcome of outcomes) await breaker.begin()(outcome);
}

const untilItProbes = (breaker: Breaker) => vi.waitUntil(() => breaker.state === 'half_open', { timeout: 30_000, interval: 5 });

describe('what an outcome says of the target:', () => {
  test.each<[FailureCode, number | undefined, Verdict]>([
    ['network', undefined, 'bad'],
    ['timeout', undefined, 'bad'],
    ['response_cut', 200, 'bad'],
    ['http_retryable', 500, 'bad'],
    ['http_retryable', 503, 'bad'],
    ['http_retryable', 599, 'bad'],
    ['http_retryable', 408, 'well'],
    ['http_retryable', 425, 'well'],
    ['http_retryable', 429, 'well'],
    ['http_permanent', 400, 'well'],
    ['http_permanent', 401, 'well'],
    ['http_permanent', 404, 'well'],
    ['http_permanent', 499, 'well'],
    ['redirect_refused', 302, 'well'],
    ['response_too_large', 200, 'well'],
    ['address_not_allowed', undefined, 'silent'],
    ['request_invalid', undefined, 'silent'],
    ['secret_missing', undefined, 'silent'],
    ['secret_not_allowed', undefined, 'silent'],
    ['process_died', undefined, 'silent'],
  ])('%s with status %s says that it is %s', (code, status, verdict) => {
    expect(verdictOf(failed(code, 'x', { detail: { ...(status !== undefined && { status }) } }))).toBe(verdict);
  });

  test('done says well; a send that was not made or was cut by us says nothing', () => {
    expect(verdictOf(ok)).toBe('well');
    expect(verdictOf({ kind: 'not_sent', why: 'stopping' })).toBe('silent');
    expect(verdictOf({ kind: 'uncertain', failure: { code: 'process_died', message: 'x' } })).toBe('silent');
  });
});

describe('a breaker', () => {
  test('stays closed at four failures and opens at the fifth', async () => {
    const breaker = startBreaker(30_000);
    await endAll(breaker, [bad, bad, bad, bad]);
    expect([breaker.state, breaker.probesInMs, breaker.block()]).toEqual(['closed', null, undefined]);
    await endAll(breaker, [bad]);
    expect(breaker.state).toBe('open');
    expect(breaker.block()).toMatchObject({ by: 'breaker', why: 'failed too often, at last with: The target answered 500' });
    expect(breaker.probesInMs).toBeGreaterThan(0);
    expect(breaker.probesInMs).toBeLessThanOrEqual(30_000);
  });

  test('stays closed while no more than half fail, and what says nothing counts for neither side', async () => {
    const breaker = startBreaker(30_000);
    await endAll(breaker, [ok, bad, ok, bad, ok, bad, ok, bad, refused, refused, refused]);
    expect(breaker.state).toBe('closed');
    await endAll(breaker, [bad]);
    expect(breaker.state).toBe('open');
  });

  test('opens when sends that take longer than its window all fail', async () => {
    const breaker = startBreaker(100); // a window of 50 ms
    const ends = Array.from({ length: 5 }, () => breaker.begin());
    const sentAtMs = performance.now();
    await vi.waitUntil(() => performance.now() - sentAtMs > 150, { timeout: 30_000, interval: 5 });
    for (const end of ends) await end(bad);
    expect(breaker.state).toBe('open');
  });

  test('that is tried asks the others to come back soon, and lets nothing else through', async () => {
    const breaker = startBreaker();
    await endAll(breaker, [bad, bad, bad, bad, bad]);
    await untilItProbes(breaker);
    expect(breaker.block()).toBeUndefined();
    const end = breaker.begin();
    const { inMs } = breaker.block() ?? { inMs: 0 };
    expect(inMs).toBeGreaterThanOrEqual(1_000);
    expect(inMs).toBeLessThan(3_000);
    await end(ok);
    expect([breaker.state, breaker.block()]).toEqual(['closed', undefined]);
  });

  test.each<[string, Outcome | undefined]>([
    ['was stopped', { kind: 'uncertain', failure: { code: 'process_died', message: 'x' } }],
    ['was not sent', { kind: 'not_sent', why: 'stopping' }],
    ['may not go to that address', refused],
    ['threw', undefined],
  ])('is neither closed nor opened by a probe that %s: the next send is the probe', async (_, outcome) => {
    const breaker = startBreaker();
    await endAll(breaker, [bad, bad, bad, bad, bad]);
    await untilItProbes(breaker);
    await breaker.begin()(outcome);
    expect([breaker.state, breaker.block()]).toEqual(['half_open', undefined]);
    await breaker.begin()(ok);
    expect(breaker.state).toBe('closed');
  });

  test('opens again by a probe that fails, for another reset', async () => {
    const breaker = startBreaker();
    await endAll(breaker, [bad, bad, bad, bad, bad]);
    await untilItProbes(breaker);
    await breaker.begin()(bad);
    expect(breaker.state).toBe('open');
    await untilItProbes(breaker);
  });

  test('is neither closed nor opened by sends that began before it opened', async () => {
    const breaker = startBreaker();
    const old = Array.from({ length: 20 }, () => breaker.begin());
    await endAll(breaker, [bad, bad, bad, bad, bad]);
    await old.pop()?.(ok);
    expect(breaker.state).toBe('open');
    await untilItProbes(breaker);
    await old.pop()?.(ok);
    await old.pop()?.(bad);
    expect(breaker.state).toBe('half_open');
    await breaker.begin()(ok);
    for (const end of old) await end(bad);
    expect(breaker.state).toBe('closed');
  });

  test('that has closed has forgotten what opened it', async () => {
    const breaker = startBreaker(1_000);
    await endAll(breaker, [bad, bad, bad, bad, bad]);
    await untilItProbes(breaker);
    await endAll(breaker, [ok, bad, bad, bad]);
    expect(breaker.state).toBe('closed');
  });

  test('that is shut down counts nothing any more', async () => {
    const breaker = startBreaker();
    const end = breaker.begin();
    breaker.shutdown();
    await end(bad);
  });
});
