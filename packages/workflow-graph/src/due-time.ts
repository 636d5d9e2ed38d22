import { Temporal } from 'temporal-polyfill';
import { DAY_MS, MAX_WAIT_MS, parseDuration } from './duration.js';
import type { WaitConfig } from './graph.js';
import { isZone, parseAt, parseTimeOfDay, toInstant } from './local-time.js';

export { parseDuration } from './duration.js';

/**
 * When a wait is over. The present instant is handed in: no clock is read here.
 *
 * - A duration counts from now; less than the shortest wait is raised to it, zero included. Days, weeks, months and years are calendar units
 *   in `zone`; a month that lacks the day ends on its last one.
 * - An instant that has passed is due now: the run goes on at once.
 * - A time of day is its next occurrence strictly after now in its zone.
 * - Local times that do not exist or come twice: see local-time.ts.
 *
 * `due` is never earlier than now and never more than five years ahead (rounded to the calendar). Whatever cannot be read is `invalid`, with
 * a reason for people; templates must have been filled before.
 */

export type DueTime = { kind: 'due'; dueAt: Date } | { kind: 'invalid'; reason: string };

export type DueTimeOptions = {
  /** The shortest wait by duration, in ms. Default: one minute. */
  minimumWaitMs?: number;
  /** The zone whose calendar counts days and months of a duration (IANA). Default: UTC. */
  zone?: string;
};

export const MINIMUM_WAIT_MS = 60_000;

/** Five years and a little, in ms: months were counted by their mean length and may be up to three days longer in the calendar. */
const FURTHEST_MS = MAX_WAIT_MS + 4 * DAY_MS;

export function dueTime(wait: WaitConfig, now: Date, { minimumWaitMs = MINIMUM_WAIT_MS, zone = 'UTC' }: DueTimeOptions = {}): DueTime {
  const nowMs = now.getTime();
  if (Number.isNaN(nowMs)) return invalid('the present instant is not a date');
  if (wait.kind === 'duration') return afterDuration(wait.duration, nowMs, minimumWaitMs, zone);
  if ('timeOfDay' in wait) return atTimeOfDay(wait.timeOfDay, wait.zone, nowMs);
  return atInstant(wait.at, wait.zone ?? 'UTC', nowMs);
}

const invalid = (reason: string): DueTime => ({ kind: 'invalid', reason });
const unknownZone = (zone: string): DueTime => invalid(`${JSON.stringify(zone)} is not a time zone of the IANA database`);

function afterDuration(written: string | number, nowMs: number, minimumWaitMs: number, zone: string): DueTime {
  const duration = parseDuration(written);
  if (!duration.ok) return invalid(duration.reason);
  if (!isZone(zone)) return unknownZone(zone);
  const { months, days, milliseconds } = duration;
  const datedMs = months === 0 && days === 0 ? nowMs : addCalendar(nowMs, { months, days }, zone);
  return due(Math.max(datedMs + milliseconds, nowMs + minimumWaitMs), nowMs);
}

/** The same local time so many months and days later; months first, each clamped to the month's end. In ms since the epoch. */
function addCalendar(nowMs: number, units: { months: number; days: number }, zone: string): number {
  const local = Temporal.Instant.fromEpochMilliseconds(nowMs).toZonedDateTimeISO(zone).toPlainDateTime();
  return toInstant(local.add(units), zone).epochMilliseconds;
}

function atInstant(written: string, zone: string, nowMs: number): DueTime {
  if (!isZone(zone)) return unknownZone(zone);
  const parsed = parseAt(written, zone);
  return parsed.ok ? due(roundUpToMs(parsed.instant), nowMs) : invalid(parsed.reason);
}

function atTimeOfDay(written: string, zone: string, nowMs: number): DueTime {
  if (!isZone(zone)) return unknownZone(zone);
  const time = parseTimeOfDay(written);
  if (time === null) return invalid(`${JSON.stringify(written)} is not a time of day from 00:00 to 23:59`);
  let day = Temporal.Instant.fromEpochMilliseconds(nowMs).toZonedDateTimeISO(zone).toPlainDate();
  let dueMs = toInstant(day.toPlainDateTime(time), zone).epochMilliseconds;
  while (dueMs <= nowMs) {
    day = day.add({ days: 1 });
    dueMs = toInstant(day.toPlainDateTime(time), zone).epochMilliseconds;
  }
  return due(dueMs, nowMs);
}

function due(dueMs: number, nowMs: number): DueTime {
  if (!(dueMs - nowMs <= FURTHEST_MS)) return invalid('a wait cannot be longer than five years');
  return { kind: 'due', dueAt: new Date(Math.max(dueMs, nowMs)) };
}

/** No wait ends early, not by a fraction of a millisecond either. */
function roundUpToMs(instant: Temporal.Instant): number {
  return instant.round({ smallestUnit: 'millisecond', roundingMode: 'ceil' }).epochMilliseconds;
}
