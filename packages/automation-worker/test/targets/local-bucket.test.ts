/** The bucket of one worker, by a clock of the test. */
import { expect, test } from 'vitest';
import { LocalBucket } from '../../src/targets/local-bucket.js';

/** So many takes at that instant: the waits of those granted. */
function takeAll(
  bucket: LocalBucket,
  count: number,
  { nowMs, ratePerSecond = 10, maxWaitMs = 1_000 }: { nowMs: number; ratePerSecond?: number; maxWaitMs?: number },
) {
  const takes = Array.from({ length: count }, () => bucket.take({ nowMs, ratePerSecond, maxWaitMs }));
  return takes.filter(({ isGranted }) => isGranted).map(({ waitMs }) => waitMs);
}

test('a new bucket is empty: its tokens come one by one, and only those that come within the wait', () => {
  const bucket = new LocalBucket(5_000);
  expect(takeAll(bucket, 30, { nowMs: 5_000 })).toEqual([100, 200, 300, 400, 500, 600, 700, 800, 900, 1_000]);
});

test('a refusal takes nothing and says when the next token comes', () => {
  const bucket = new LocalBucket(0);
  for (let nth = 0; nth < 5; nth++) expect(bucket.take({ nowMs: 0, ratePerSecond: 0.1, maxWaitMs: 1_000 })).toEqual({ isGranted: false, waitMs: 10_000 });
  expect(bucket.take({ nowMs: 9_500, ratePerSecond: 0.1, maxWaitMs: 1_000 })).toEqual({ isGranted: true, waitMs: 500 });
});

test('an idle bucket holds half a second of its rate, one token at least', () => {
  expect(takeAll(new LocalBucket(0), 30, { nowMs: 3_600_000 })).toEqual([0, 0, 0, 0, 0, 100, 200, 300, 400, 500, 600, 700, 800, 900, 1_000]);
  expect(takeAll(new LocalBucket(0), 30, { nowMs: 3_600_000, ratePerSecond: 1 })).toEqual([0, 1_000]);
});

test('any ten seconds hold ten and a half seconds of its rate at most, and a crowd gets nearly all of ten', () => {
  const bucket = new LocalBucket(0);
  const grantedAtMs: number[] = [];
  for (let nowMs = 0; nowMs < 40_000; nowMs += 50) {
    if (nowMs > 12_000 && nowMs < 14_000) continue; // nobody asks for a while
    for (const waitMs of takeAll(bucket, 3, { nowMs, ratePerSecond: 20 })) grantedAtMs.push(nowMs + waitMs);
  }
  for (const fromMs of grantedAtMs) expect(grantedAtMs.filter((atMs) => atMs >= fromMs && atMs < fromMs + 10_000).length).toBeLessThanOrEqual(210);
  expect(grantedAtMs.filter((atMs) => atMs >= 20_000 && atMs < 30_000).length).toBeGreaterThanOrEqual(199);
});

test('a rate that was lowered owes no more than the wait that is allowed', () => {
  const bucket = new LocalBucket(0);
  takeAll(bucket, 1_000, { nowMs: 0, ratePerSecond: 100 });
  expect(bucket.take({ nowMs: 0, ratePerSecond: 1, maxWaitMs: 1_000 })).toEqual({ isGranted: false, waitMs: 2_000 });
});
