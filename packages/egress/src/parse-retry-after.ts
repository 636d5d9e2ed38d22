/**
 * Reads Retry-After (RFC 9110 §10.2.3): how long the target wants to be left alone.
 * Anything that asks for no wait (zero, a past date, a negative number, garbage) is "no wish", so that the ordinary backoff applies and never an
 * immediate retry. A wish beyond the cap is the cap.
 */
export const MAX_RETRY_AFTER_MS = 24 * 60 * 60 * 1000;

const MONTHS = ['Jan', 'Feb', 'Mar', 'Apr', 'May', 'Jun', 'Jul', 'Aug', 'Sep', 'Oct', 'Nov', 'Dec'];
const IMF_FIXDATE = /^(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun), (\d{2}) ([A-Z][a-z]{2}) (\d{4}) (\d{2}):(\d{2}):(\d{2}) GMT$/;
const RFC850_DATE = /^(?:Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)day, (\d{2})-([A-Z][a-z]{2})-(\d{2}) (\d{2}):(\d{2}):(\d{2}) GMT$/;
const ASCTIME_DATE = /^(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun) ([A-Z][a-z]{2}) ([ \d]\d) (\d{2}):(\d{2}):(\d{2}) (\d{4})$/;

/** The first usable of the header's values, as ms from `now`, at most MAX_RETRY_AFTER_MS; undefined when none is usable. */
export function parseRetryAfter(values: readonly string[], now: Date): number | undefined {
  for (const value of values) {
    const waitMs = parseOne(value.trim(), now);
    if (waitMs !== null && waitMs > 0) return Math.min(waitMs, MAX_RETRY_AFTER_MS);
  }
  return undefined;
}

function parseOne(value: string, now: Date): number | null {
  if (/^\d+$/.test(value)) return Number(value) * 1000;
  const at = parseHttpDate(value, now);
  return at === null ? null : at - now.getTime();
}

/** The three forms a recipient must accept (RFC 9110 §5.6.7) → ms since the epoch. `now` places the two-digit year of the second form. */
function parseHttpDate(value: string, now: Date): number | null {
  const imf = IMF_FIXDATE.exec(value);
  if (imf !== null) return instantOf(Number(imf[3]), imf[2], imf[1], imf.slice(4));
  const rfc850 = RFC850_DATE.exec(value);
  if (rfc850 !== null) {
    const century = Math.floor(now.getUTCFullYear() / 100) * 100;
    const year = century + Number(rfc850[3]);
    // A year that looks more than 50 years ahead is the most recent past one with those digits.
    return instantOf(year > now.getUTCFullYear() + 50 ? year - 100 : year, rfc850[2], rfc850[1], rfc850.slice(4));
  }
  const asctime = ASCTIME_DATE.exec(value);
  return asctime === null ? null : instantOf(Number(asctime[6]), asctime[1], asctime[2], asctime.slice(3, 6));
}

function instantOf(year: number, monthName: string | undefined, dayText: string | undefined, clock: readonly string[]): number | null {
  const month = MONTHS.indexOf(monthName ?? '');
  const day = Number(dayText);
  const [hour = 99, minute = 99, second = 99] = clock.map(Number);
  if (month === -1 || hour > 23 || minute > 59 || second > 60) return null;
  const at = Date.UTC(year, month, day, hour, minute, second);
  return new Date(Date.UTC(year, month, day)).getUTCDate() === day ? at : null;
}
