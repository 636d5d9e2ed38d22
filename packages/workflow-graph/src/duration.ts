import { Temporal } from 'temporal-polyfill';

/**
 * Reads the length of a wait as people write it: an ISO 8601 duration ("PT2H", "P40D", "P1M"), a short text ("90s", "15m", "2h", "3d",
 * "1w"), or a number of milliseconds. Months and days stay calendar units, because how long they are depends on when they begin.
 * A text without a unit is refused (nobody can know whether "5" means minutes), except "0".
 */

/** `milliseconds` comes on top of the calendar units. All three are finite and not negative. */
export type Duration = { months: number; days: number; milliseconds: number };
export type ParsedDuration = ({ ok: true } & Duration) | { ok: false; reason: string };

const SECOND_MS = 1_000;
const MINUTE_MS = 60 * SECOND_MS;
const HOUR_MS = 60 * MINUTE_MS;
export const DAY_MS = 24 * HOUR_MS;
/** The longest wait: five years, in ms. Five years in a row have at most two leap days. */
export const MAX_WAIT_MS = (5 * 365 + 2) * DAY_MS;
/** A month for comparing with the longest wait: a twelfth of 365.25 days, in ms. */
const MEAN_MONTH_MS = (365.25 / 12) * DAY_MS;

const SHORT = /^(-?)(\d{1,15})(s|m|h|d|w)$/;
const ISO = /^[+-]?P/i;

const refused = (reason: string): ParsedDuration => ({ ok: false, reason });

/** Never throws; `reason` is a sentence for people. */
export function parseDuration(written: unknown): ParsedDuration {
  if (typeof written === 'number') return parseMilliseconds(written);
  if (typeof written !== 'string') return refused('a duration must be a text such as "2h" or "PT2H", or a number of milliseconds');
  const text = written.trim();
  if (text === '') return refused('the duration is empty');
  if (text === '0') return { ok: true, months: 0, days: 0, milliseconds: 0 };
  const short = SHORT.exec(text);
  if (short) return parseShort(short[1] === '-', Number(short[2]), short[3] as 's' | 'm' | 'h' | 'd' | 'w', text);
  if (ISO.test(text)) return parseIso(text);
  return refused(`${quote(text)} is not a duration such as "90s", "15m", "2h", "3d", "1w", "PT2H" or "P1M"`);
}

function parseMilliseconds(ms: number): ParsedDuration {
  if (!Number.isFinite(ms)) return refused(`a duration must be a finite number of milliseconds, not ${ms}`);
  return bounded({ months: 0, days: 0, milliseconds: ms }, String(ms));
}

function parseShort(negative: boolean, count: number, unit: 's' | 'm' | 'h' | 'd' | 'w', text: string): ParsedDuration {
  const signed = negative ? -count : count;
  switch (unit) {
    case 's':
      return bounded({ months: 0, days: 0, milliseconds: signed * SECOND_MS }, text);
    case 'm':
      return bounded({ months: 0, days: 0, milliseconds: signed * MINUTE_MS }, text);
    case 'h':
      return bounded({ months: 0, days: 0, milliseconds: signed * HOUR_MS }, text);
    case 'd':
      return bounded({ months: 0, days: signed, milliseconds: 0 }, text);
    case 'w':
      return bounded({ months: 0, days: signed * 7, milliseconds: 0 }, text);
  }
}

function parseIso(text: string): ParsedDuration {
  let parsed: Temporal.Duration;
  try {
    parsed = Temporal.Duration.from(text);
  } catch {
    return refused(`${quote(text)} is not an ISO 8601 duration such as "PT2H", "P40D" or "P1M"`);
  }
  const milliseconds =
    parsed.hours * HOUR_MS +
    parsed.minutes * MINUTE_MS +
    parsed.seconds * SECOND_MS +
    parsed.milliseconds +
    parsed.microseconds / 1e3 +
    parsed.nanoseconds / 1e6;
  return bounded({ months: parsed.years * 12 + parsed.months, days: parsed.weeks * 7 + parsed.days, milliseconds }, text);
}

/** Refuses what is negative or over five years; the milliseconds become whole, rounded up, so that no wait ends early. */
function bounded({ months, days, milliseconds }: Duration, text: string): ParsedDuration {
  if (months < 0 || days < 0 || milliseconds < 0) return refused(`a duration cannot be negative: ${quote(text)}`);
  const approximateMs = months * MEAN_MONTH_MS + days * DAY_MS + milliseconds;
  if (!(approximateMs <= MAX_WAIT_MS)) return refused(`a wait cannot be longer than five years: ${quote(text)}`);
  // The zero that is added turns -0 into 0.
  return { ok: true, months: months + 0, days: days + 0, milliseconds: Math.ceil(milliseconds) + 0 };
}

function quote(text: string): string {
  return JSON.stringify(text.length > 100 ? `${text.slice(0, 100)}…` : text);
}
