import { describe, expect, it } from 'vitest';
import { MAX_RETRY_AFTER_MS, parseRetryAfter } from '../src/parse-retry-after.js';

const NOW = new Date('2026-10-21T07:20:00Z');

describe('F37: Retry-After', () => {
  it.each([
    [['120'], 120_000],
    [['1'], 1_000],
    [[' 120 '], 120_000],
    [['Wed, 21 Oct 2026 07:28:00 GMT'], 480_000],
    [['Wednesday, 21-Oct-26 07:28:00 GMT'], 480_000],
    [['Wed Oct 21 07:28:00 2026'], 480_000],
    [['Sun Nov  1 07:28:00 2026'], MAX_RETRY_AFTER_MS],
    [['99999999999'], MAX_RETRY_AFTER_MS],
    [['9'.repeat(400)], MAX_RETRY_AFTER_MS],
    [['86400'], MAX_RETRY_AFTER_MS],
    [['86401'], MAX_RETRY_AFTER_MS],
    [['Wed, 21 Oct 2099 07:28:00 GMT'], MAX_RETRY_AFTER_MS],
    [['soon', '120'], 120_000],
    [['120', '5'], 120_000],
    [['-1', 'Wed, 21 Oct 2026 07:28:00 GMT'], 480_000],
  ])('F37: %j asks for %i ms', (values, expected) => {
    expect(parseRetryAfter(values, NOW)).toBe(expected);
  });

  it.each([
    [[]],
    [['']],
    [['0']],
    [['-1']],
    [['soon']],
    [['1.5']],
    [['1e3']],
    [['0x10']],
    [['120 s']],
    [['120, 240']],
    [['Wed, 21 Oct 2026 07:19:00 GMT']],
    [['Wed, 21 Oct 2026 07:20:00 GMT']],
    [['Wednesday, 21-Oct-94 07:28:00 GMT']],
    [['2026-10-21T07:28:00Z']],
    [['Wed, 21 Oct 2026 07:28:00']],
    [['Wed, 21 Oct 2026 07:28:00 +0000']],
    [['Wed, 21 Okt 2026 07:28:00 GMT']],
    [['Wed, 31 Nov 2026 07:28:00 GMT']],
    [['Wed, 21 Oct 2026 24:28:00 GMT']],
    [['Wed, 21 Oct 2026 07:60:00 GMT']],
  ])('F37: %j asks for nothing usable', (values) => {
    expect(parseRetryAfter(values, NOW)).toBeUndefined();
  });
});
