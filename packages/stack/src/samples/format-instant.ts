/** An instant for people, in UTC: "Tue 1 Dec 2026 08:00:00 UTC". */
const FORMAT = new Intl.DateTimeFormat('en-GB', {
  timeZone: 'UTC',
  weekday: 'short',
  day: 'numeric',
  month: 'short',
  year: 'numeric',
  hour: '2-digit',
  minute: '2-digit',
  second: '2-digit',
});

/** Takes RFC 3339. */
export function formatInstant(instant: string): string {
  return `${FORMAT.format(new Date(instant)).replaceAll(',', '')} UTC`;
}
