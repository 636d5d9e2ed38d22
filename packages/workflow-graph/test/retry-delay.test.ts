import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { retryDelay } from '../src/retry-delay.js';

describe('retry delay', () => {
  test('grows fourfold from 30 seconds to at most an hour', () => {
    expect([1, 2, 3, 4, 5, 100, 10_000].map((failures) => retryDelay(failures, 0.5))).toEqual([
      30_000, 120_000, 480_000, 1_920_000, 3_600_000, 3_600_000, 3_600_000,
    ]);
  });

  test('jitters by 20 % either way', () => {
    expect(retryDelay(1, 0)).toBe(24_000);
    expect(retryDelay(1, 1)).toBe(36_000);
    expect(retryDelay(2, 0)).toBe(96_000);
  });

  test("takes the target's own wish when it is later, up to 24 hours", () => {
    expect(retryDelay(1, 0.5, { retryAfterMs: 90_000 })).toBe(90_000);
    expect(retryDelay(1, 0.5, { retryAfterMs: 1_000 })).toBe(30_000);
    expect(retryDelay(1, 0.5, { retryAfterMs: 7_200_000 })).toBe(7_200_000);
    expect(retryDelay(1, 0.5, { retryAfterMs: 1e15 })).toBe(86_400_000);
  });

  test('is a whole number from 24 seconds to a day, whatever is handed in', () => {
    fc.assert(
      fc.property(fc.double(), fc.double(), fc.option(fc.double(), { nil: undefined }), (failures, random01, retryAfterMs) => {
        const delayMs = retryDelay(failures, random01, { retryAfterMs });
        return Number.isInteger(delayMs) && delayMs >= 24_000 && delayMs <= 86_400_000;
      }),
    );
  });
});
