/**
 * Holds what arrived outside, mail in the inbox and requests at the webhook sink, against what all sample runs together should have
 * sent: nothing missing, nothing twice, nothing else. Answers a sentence for each difference.
 */
import type { InboxMail, SinkRequest } from './api-answers.js';
import type { ExpectedRun } from './read-samples.js';

/** `mails` is undefined when mail went to a server whose inbox cannot be seen; then it is not judged. */
export type Arrivals = { readonly mails: readonly InboxMail[] | undefined; readonly requests: readonly SinkRequest[] };

export function compareArrivals({ mails, requests }: Arrivals, runs: readonly ExpectedRun[]): readonly string[] {
  const expectedMails = runs.flatMap((run) => [...run.mails, ...run.notices]).map(({ to, subject }) => `mail "${subject}" to ${to}`);
  const foundMails = mails?.map(({ to, subject }) => `mail "${subject}" to ${to.join(', ')}`) ?? expectedMails;
  const expectedRequests = runs.flatMap((run) =>
    run.requests.flatMap(({ method, path, body, times }) => Array.from({ length: times }, () => `request ${method} ${path} ${canonical(body)}`)),
  );
  const foundRequests = requests.map(({ method, path, body }) => `request ${method} ${path} ${canonical(parsed(body))}`);
  return [...differ(foundMails, expectedMails), ...differ(foundRequests, expectedRequests)];
}

/** How many mails should be in the inbox. */
export function countMails(runs: readonly ExpectedRun[]): number {
  return runs.reduce((count, { mails, notices }) => count + mails.length + notices.length, 0);
}

function differ(found: readonly string[], expected: readonly string[]): readonly string[] {
  const count = (all: readonly string[], one: string): number => all.filter((other) => other === one).length;
  return [...new Set([...expected, ...found])].flatMap((one) => {
    const [is, should] = [count(found, one), count(expected, one)];
    return is === should ? [] : [`${one}: arrived ${is} times, not ${should}`];
  });
}

function parsed(body: string): unknown {
  try {
    return JSON.parse(body);
  } catch {
    return body;
  }
}

/** JSON with the fields of objects in order, so that the same value has the same text. */
function canonical(value: unknown): string {
  return JSON.stringify(value, (_key, one: unknown) =>
    typeof one === 'object' && one !== null && !Array.isArray(one) ? Object.fromEntries(Object.entries(one).sort(([a], [b]) => (a < b ? -1 : 1))) : one,
  );
}
