import { Temporal } from 'temporal-polyfill';

/**
 * From local times to instants, by the zone's own rules (IANA). Two rules hold wherever a local time is turned into an instant: one that
 * does not exist, because clocks go forward, means the first instant that does; one that comes twice means the first of the two.
 */

export type ParsedInstant = { ok: true; instant: Temporal.Instant } | { ok: false; reason: string };

/** True for a name of the IANA time zone database. An offset such as "+02:00" is not one. */
export function isZone(zone: string): boolean {
  if (!/^[A-Za-z][A-Za-z0-9_+/-]{0,63}$/.test(zone)) return false;
  try {
    new Intl.DateTimeFormat('en', { timeZone: zone });
    return true;
  } catch {
    return false;
  }
}

/** The instant at which clocks in the zone show this date and time. `zone` must be known. */
export function toInstant(local: Temporal.PlainDateTime, zone: string): Temporal.Instant {
  const earlier = local.toZonedDateTime(zone, { disambiguation: 'earlier' });
  if (earlier.toPlainDateTime().equals(local)) return earlier.toInstant();
  // The time does not exist. `earlier` lies before the change by as much as the clocks go forward, so the next change is that one.
  const change = earlier.getTimeZoneTransition('next');
  return (change ?? local.toZonedDateTime(zone)).toInstant();
}

/** RFC 3339 §5.6 with an offset; or the same without one, seconds optional; or a date, which means its first moment. */
const AT = /^(\d{4}-\d\d-\d\d)(?:[Tt ](\d\d:\d\d(?::\d\d(?:\.\d{1,9})?)?)([Zz]|[+-]\d\d:\d\d)?)?$/;

/** Reads an instant (RFC 3339), or a local date and time or date in `zone`, which must be known. Never throws; days that do not exist are refused. */
export function parseAt(written: string, zone: string): ParsedInstant {
  const match = AT.exec(written.trim());
  if (!match) return { ok: false, reason: `${quote(written)} is not an instant such as "2026-04-07T09:00:00Z" or a date such as "2026-04-07"` };
  const [, date = '', time = '00:00', offset] = match;
  try {
    if (offset !== undefined) return { ok: true, instant: Temporal.Instant.from(`${date}T${time}${offset.toUpperCase()}`) };
    return { ok: true, instant: toInstant(Temporal.PlainDateTime.from(`${date}T${time}`), zone) };
  } catch {
    return { ok: false, reason: `there is no such date or time as ${quote(written)}` };
  }
}

/** Reads "HH:MM" from 00:00 to 23:59, or answers null. */
export function parseTimeOfDay(written: string): Temporal.PlainTime | null {
  return /^([01]\d|2[0-3]):[0-5]\d$/.test(written) ? Temporal.PlainTime.from(written) : null;
}

function quote(text: string): string {
  return JSON.stringify(text.length > 100 ? `${text.slice(0, 100)}…` : text);
}
