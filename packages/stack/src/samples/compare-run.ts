/** Holds a sample run against how it should end. Answers a sentence for each difference, none when all is as it should be. */
import type { Contact, Run } from './api-answers.js';
import type { ExpectedRun } from './read-samples.js';
import { bySeq } from './tell-run.js';

export function compareRun(run: Run, contact: Contact | undefined, expected: ExpectedRun): readonly string[] {
  const nodes = bySeq(run.history).map(([first]) => first?.node);
  const mails = run.messages.filter(({ state }) => state === 'sent').map(({ to, subject }) => `${subject} → ${to.address}`);
  const unsent = run.messages.filter(({ state }) => state !== 'sent').map(({ subject, state }) => `the mail "${subject}" is ${state}`);
  return [
    ...(run.state === expected.state ? [] : [`it is ${run.state}, not ${expected.state}: ${run.why}`]),
    ...differ('nodes', nodes, expected.nodes),
    ...differ(
      'mails',
      mails,
      expected.mails.map(({ to, subject }) => `${subject} → ${to}`),
    ),
    ...unsent,
    ...(run.notices.length === expected.notices.length ? [] : [`it was notified of ${run.notices.length} times, not ${expected.notices.length}`]),
    ...differ('tags of the contact', sorted(contact?.tags), sorted(expected.tags)),
    ...differ('lists of the contact', sorted(contact?.lists.map(({ name }) => name)), sorted(expected.lists)),
  ];
}

function differ(what: string, found: readonly unknown[], expected: readonly unknown[]): readonly string[] {
  const [is, should] = [JSON.stringify(found), JSON.stringify(expected)];
  return is === should ? [] : [`${what}: ${is} instead of ${should}`];
}

function sorted(names: readonly string[] = []): readonly string[] {
  return [...names].sort();
}
