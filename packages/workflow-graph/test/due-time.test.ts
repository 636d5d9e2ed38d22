import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { type DueTimeOptions, dueTime, parseDuration } from '../src/due-time.js';
import type { WaitConfig } from '../src/graph.js';
import { around, publish, wait } from './graphs.js';

const NOW = new Date('2026-04-07T09:00:00.000Z');
const MINUTE_MS = 60_000;
const DAY_MS = 86_400_000;

/** The instant at which the wait is over, as text, or the reason why it has none. */
function due(config: WaitConfig, now: Date | string = NOW, options?: DueTimeOptions): string {
  const answer = dueTime(config, new Date(now), options);
  return answer.kind === 'due' ? answer.dueAt.toISOString() : answer.reason;
}
const after = (duration: string | number, now: Date | string = NOW, options?: DueTimeOptions) => due({ kind: 'duration', duration }, now, options);

describe('durations', () => {
  test.each([
    ['90s', '2026-04-07T09:01:30.000Z'],
    ['15m', '2026-04-07T09:15:00.000Z'],
    ['2h', '2026-04-07T11:00:00.000Z'],
    ['3d', '2026-04-10T09:00:00.000Z'],
    ['1w', '2026-04-14T09:00:00.000Z'],
    ['PT2H', '2026-04-07T11:00:00.000Z'],
    ['PT1.5H', '2026-04-07T10:30:00.000Z'],
    ['P40D', '2026-05-17T09:00:00.000Z'],
    ['P1M', '2026-05-07T09:00:00.000Z'],
    ['P1Y2M3W4DT5H6M7S', '2027-07-02T14:06:07.000Z'],
    [' 2h ', '2026-04-07T11:00:00.000Z'],
    [90_000, '2026-04-07T09:01:30.000Z'],
    [90_000.5, '2026-04-07T09:01:30.001Z'],
  ])('%j from 2026-04-07T09:00Z is %s', (duration, instant) => {
    expect(after(duration)).toBe(instant);
  });

  test('F09: a wait of 40 days, and one of more milliseconds than a timer can hold', () => {
    expect(after('40d')).toBe(new Date(NOW.getTime() + 40 * DAY_MS).toISOString());
    expect(after(4_294_972_296)).toBe(new Date(NOW.getTime() + 4_294_972_296).toISOString());
  });

  test('F14: month arithmetic clamps to the end of the month', () => {
    expect(after('P1M', '2026-01-31T10:00:00Z')).toBe('2026-02-28T10:00:00.000Z');
    expect(after('P1M', '2028-01-31T10:00:00Z')).toBe('2028-02-29T10:00:00.000Z');
    expect(after('P1Y', '2028-02-29T10:00:00Z')).toBe('2029-02-28T10:00:00.000Z');
    expect(after('P1M1D', '2026-01-31T10:00:00Z')).toBe('2026-03-01T10:00:00.000Z');
  });

  test('days keep the local time of the zone, hours do not', () => {
    const zone = 'Europe/Paris';
    expect(after('P1D', '2026-03-28T08:00:00Z', { zone })).toBe('2026-03-29T07:00:00.000Z');
    expect(after('PT24H', '2026-03-28T08:00:00Z', { zone })).toBe('2026-03-29T08:00:00.000Z');
    expect(after('1d', '2026-03-28T08:00:00Z')).toBe('2026-03-29T08:00:00.000Z');
  });

  test('a day that ends in a gap of the clock ends at the first instant after it', () => {
    expect(after('P1D', '2026-03-07T07:30:00Z', { zone: 'America/New_York' })).toBe('2026-03-08T07:00:00.000Z');
  });

  test('an unknown zone is refused', () => {
    expect(after('1d', NOW, { zone: 'Mars/Base' })).toContain('Mars/Base');
  });
});

describe('F15: zero, negative and senseless durations', () => {
  test.each([0, -0, '0', 'PT0S', 1, '59s', 'PT0.001S'])('F15: %j is raised to one minute', (duration) => {
    expect(after(duration)).toBe('2026-04-07T09:01:00.000Z');
  });

  test('F15: the floor can be lowered, down to nothing', () => {
    expect(after('10s', NOW, { minimumWaitMs: 1_000 })).toBe('2026-04-07T09:00:10.000Z');
    expect(after(0, NOW, { minimumWaitMs: 1_000 })).toBe('2026-04-07T09:00:01.000Z');
    expect(after(0, NOW, { minimumWaitMs: 0 })).toBe('2026-04-07T09:00:00.000Z');
  });

  const thousandYearsMs = 1_000 * 365 * DAY_MS;
  const bad = [
    -5,
    Number.NaN,
    Number.POSITIVE_INFINITY,
    'abc',
    '1e400',
    '',
    '5',
    '-5m',
    '-PT5M',
    'P',
    'PT',
    'P1000Y',
    '1000000d',
    thousandYearsMs,
    'P5Y1D',
    '99999999999999999999s',
  ];
  test.each(bad)('F15: %s is refused when the run meets it, with a reason', (duration) => {
    expect(dueTime({ kind: 'duration', duration }, NOW)).toEqual({ kind: 'invalid', reason: expect.stringMatching(/duration|five years/) });
  });
  test.each([...bad, null, true, [], {}])('F15: %j is refused at publish, naming node and field', (duration) => {
    const { defects } = publish(around(wait('w', duration)));
    expect(defects).toMatchObject([{ code: 'wait_invalid', node: 'w', path: 'config.duration' }]);
  });
  test.each([0, '0', '90s', 'P5Y', 'P60M', '1827d', '{{contact.attributes.days}}d'])('F15: %j is published', (duration) => {
    expect(publish(around(wait('w', duration))).defects).toEqual([]);
  });

  test('F15: a template that was filled with nothing is refused when the run meets it', () => {
    expect(after('')).toBe('the duration is empty');
    expect(after('d')).toContain('is not a duration');
    expect(after('{{contact.attributes.days}}')).toContain('is not a duration');
  });

  test('F15: an instant that has passed is due at once', () => {
    expect(due({ kind: 'until', at: '2020-01-01T00:00:00Z' })).toBe(NOW.toISOString());
    expect(due({ kind: 'until', at: '2020-01-01' })).toBe(NOW.toISOString());
  });

  test('F15: 2026-02-30 is refused, at publish and when the run meets it', () => {
    const config = { kind: 'until', at: '2026-02-30' } as const;
    expect(dueTime(config, NOW)).toMatchObject({ kind: 'invalid', reason: expect.stringContaining('2026-02-30') });
    expect(publish(around({ id: 'w', type: 'wait', config })).defects).toMatchObject([{ code: 'wait_invalid', node: 'w', path: 'config.at' }]);
  });

  test('F15: an instant over five years ahead is refused when the run meets it', () => {
    expect(due({ kind: 'until', at: '2999-01-01T00:00:00Z' })).toContain('five years');
    expect(due({ kind: 'until', at: '2031-04-07T09:00:00Z' })).toBe('2031-04-07T09:00:00.000Z');
  });
});

describe('waits until an instant', () => {
  test.each([
    ['2026-04-08T09:00:00Z', undefined, '2026-04-08T09:00:00.000Z'],
    ['2026-04-08T09:00:00+02:00', undefined, '2026-04-08T07:00:00.000Z'],
    ['2026-04-08t09:00:00z', undefined, '2026-04-08T09:00:00.000Z'],
    ['2026-04-08T09:00:00+02:00', 'America/New_York', '2026-04-08T07:00:00.000Z'],
    ['2026-04-08T09:00', undefined, '2026-04-08T09:00:00.000Z'],
    ['2026-04-08T09:00:30', 'Europe/Paris', '2026-04-08T07:00:30.000Z'],
    ['2026-04-08', 'Europe/Paris', '2026-04-07T22:00:00.000Z'],
    ['2026-04-08T09:00:00.0001Z', undefined, '2026-04-08T09:00:00.001Z'],
  ])('%s in %s is %s', (at, zone, instant) => {
    expect(due({ kind: 'until', at, ...(zone === undefined ? {} : { zone }) })).toBe(instant);
  });

  test.each([
    '',
    'soon',
    '2026-13-01',
    '2026-02-29',
    '2026-04-08T24:00',
    '2026-04-08T09:60',
    '08/04/2026',
    '20260408',
    '2026-04-08T09:00:00[Europe/Paris]',
    '2026-04-08T09:00+99:00',
  ])('%j is refused, at publish and when the run meets it', (at) => {
    expect(dueTime({ kind: 'until', at }, NOW).kind).toBe('invalid');
    expect(publish(around({ id: 'w', type: 'wait', config: { kind: 'until', at } })).defects).toMatchObject([{ code: 'wait_invalid', path: 'config.at' }]);
  });

  test('a local time that does not exist means the first instant that does, a repeated one the first of the two', () => {
    const zone = 'America/New_York';
    expect(due({ kind: 'until', at: '2026-03-08T02:30', zone }, '2026-03-01T00:00:00Z')).toBe('2026-03-08T07:00:00.000Z');
    expect(due({ kind: 'until', at: '2026-11-01T01:30', zone }, '2026-03-01T00:00:00Z')).toBe('2026-11-01T05:30:00.000Z');
    expect(due({ kind: 'until', at: '2011-12-30T12:00', zone: 'Pacific/Apia' }, '2011-12-01T00:00:00Z')).toBe('2011-12-30T10:00:00.000Z');
  });

  test('a template is taken at publish and refused unfilled', () => {
    const config = { kind: 'until', at: '{{event.starts_at}}' } as const;
    expect(publish(around({ id: 'w', type: 'wait', config })).defects).toEqual([]);
    expect(dueTime(config, NOW).kind).toBe('invalid');
  });
});

describe('waits until a time of day', () => {
  const at = (timeOfDay: string, now: string, zone = 'America/New_York') => due({ kind: 'until', timeOfDay, zone }, now);

  test('it is the next occurrence strictly after now in the zone', () => {
    expect(at('09:00', '2026-04-07T12:59:59Z')).toBe('2026-04-07T13:00:00.000Z');
    expect(at('09:00', '2026-04-07T13:00:00Z')).toBe('2026-04-08T13:00:00.000Z');
    expect(at('09:00', '2026-04-07T13:00:01Z')).toBe('2026-04-08T13:00:00.000Z');
    expect(at('00:00', '2026-04-07T03:59:00Z')).toBe('2026-04-07T04:00:00.000Z');
  });

  test('in the gap of spring it is the first instant after the gap', () => {
    expect(at('02:30', '2026-03-08T06:00:00Z')).toBe('2026-03-08T07:00:00.000Z');
    expect(at('02:30', '2026-03-08T07:00:00Z')).toBe('2026-03-09T06:30:00.000Z');
  });

  test('in the repeated hour of autumn it is the first time only', () => {
    expect(at('01:30', '2026-11-01T05:00:00Z')).toBe('2026-11-01T05:30:00.000Z');
    expect(at('01:30', '2026-11-01T05:45:00Z')).toBe('2026-11-02T06:30:00.000Z');
  });

  test.each([
    [{ kind: 'until', timeOfDay: '24:00', zone: 'UTC' }, 'wait_invalid', 'config.timeOfDay'],
    [{ kind: 'until', timeOfDay: '9:00', zone: 'UTC' }, 'wait_invalid', 'config.timeOfDay'],
    [{ kind: 'until', timeOfDay: '09:00', zone: 'Mars/Base' }, 'zone_unknown', 'config.zone'],
    [{ kind: 'until', timeOfDay: '09:00', zone: '+02:00' }, 'zone_unknown', 'config.zone'],
    [{ kind: 'until', timeOfDay: '09:00' }, 'wait_invalid', 'config.zone'],
    [{ kind: 'until', at: '2026-04-08', timeOfDay: '09:00', zone: 'UTC' }, 'wait_invalid', 'config.at'],
    [{ kind: 'until' }, 'wait_invalid', 'config.at'],
    [{ kind: 'until', at: '2026-04-08', zone: 'Europe/Atlantis' }, 'zone_unknown', 'config.zone'],
  ])('%j is refused with %s at %s', (config, code, path) => {
    expect(publish(around({ id: 'w', type: 'wait', config })).defects).toMatchObject([{ code, node: 'w', path }]);
  });
});

describe('any wait', () => {
  const now = fc.date({ min: new Date('1990-01-01'), max: new Date('2100-01-01'), noInvalidDate: true });
  const zone = fc.constantFrom('UTC', 'America/New_York', 'Europe/Paris', 'Pacific/Apia', 'Asia/Kathmandu', 'Australia/Lord_Howe');
  const written: fc.Arbitrary<WaitConfig> = fc.oneof(
    fc.record({
      kind: fc.constant('duration' as const),
      duration: fc.oneof(fc.double(), fc.string(), fc.stringMatching(/^-?\d{1,6}[smhdw]$/), fc.stringMatching(/^P\d{1,2}M(\d{1,3}D)?(T\d{1,4}H)?$/)),
    }),
    fc.record({
      kind: fc.constant('until' as const),
      at: fc.oneof(
        fc.string(),
        now.map((date) => date.toISOString()),
        now.map((date) => date.toISOString().slice(0, 16)),
      ),
      zone,
    }),
    fc.record({ kind: fc.constant('until' as const), timeOfDay: fc.oneof(fc.string(), fc.stringMatching(/^[012]\d:[0-5]\d$/)), zone }),
  );

  test('is due between now and five years ahead, or refused with a reason: never early, never NaN', () => {
    fc.assert(
      fc.property(written, now, zone, (config, from, calendar) => {
        const answer = dueTime(config, from, { zone: calendar });
        if (answer.kind === 'invalid') return answer.reason !== '';
        const aheadMs = answer.dueAt.getTime() - from.getTime();
        return aheadMs >= (config.kind === 'duration' ? MINUTE_MS : 0) && aheadMs <= 1_831 * DAY_MS;
      }),
      { numRuns: 2_000 },
    );
  });

  test('a time of day comes within two days and reads so on the clock of its zone, gaps aside', () => {
    fc.assert(
      fc.property(fc.integer({ min: 0, max: 23 }), fc.integer({ min: 0, max: 59 }), now, (hour, minute, from) => {
        const timeOfDay = `${String(hour).padStart(2, '0')}:${String(minute).padStart(2, '0')}`;
        const answer = dueTime({ kind: 'until', timeOfDay, zone: 'Asia/Kolkata' }, from);
        if (answer.kind === 'invalid') return false;
        const clock = new Intl.DateTimeFormat('en-GB', { timeZone: 'Asia/Kolkata', hour: '2-digit', minute: '2-digit' }).format(answer.dueAt);
        return clock === timeOfDay && answer.dueAt > from && answer.dueAt.getTime() - from.getTime() <= DAY_MS;
      }),
    );
  });

  test('from an instant that is no date nothing is due', () => {
    for (const duration of ['1h', '1d', 0]) expect(dueTime({ kind: 'duration', duration }, new Date(Number.NaN)).kind).toBe('invalid');
    expect(dueTime({ kind: 'until', timeOfDay: '09:00', zone: 'UTC' }, new Date(Number.NaN)).kind).toBe('invalid');
  });
});

describe('reading durations', () => {
  test('what is written in a unit is read back as so many of it', () => {
    fc.assert(
      fc.property(fc.nat(60), fc.nat(1_000), fc.nat(10_000), (months, days, seconds) => {
        const iso = parseDuration(`P${months}M${days}DT${seconds}S`);
        if (!iso.ok) return months * (365.25 / 12) + days + seconds / 86_400 > 1_827;
        return iso.months === months && iso.days === days && iso.milliseconds === seconds * 1_000;
      }),
    );
    fc.assert(
      fc.property(fc.nat(1_800), fc.constantFrom('s', 'm', 'h', 'd') /* a week is seven days, tested above */, (count, unit) => {
        const short = parseDuration(`${count}${unit}`);
        const iso = parseDuration(unit === 'd' ? `P${count}D` : `PT${count}${unit.toUpperCase()}`);
        expect(short).toEqual(iso);
        expect(short.ok).toBe(true);
      }),
    );
    fc.assert(
      fc.property(fc.nat(1_000_000_000), (ms) => {
        expect(parseDuration(ms)).toEqual({ ok: true, months: 0, days: 0, milliseconds: ms });
      }),
    );
  });

  test('nothing throws, and what is read is finite and not negative', () => {
    fc.assert(
      fc.property(fc.oneof(fc.anything(), fc.string(), fc.double()), (anything) => {
        const parsed = parseDuration(anything);
        return !parsed.ok || [parsed.months, parsed.days, parsed.milliseconds].every((n) => Number.isFinite(n) && n >= 0);
      }),
    );
  });
});
