/** The story of a run, step by step, for somebody who sees Onward for the first time; and of an event that started none. */
import type { Attempt, ContactSnapshot, Graph, Run } from './api-answers.js';
import { formatInstant } from './format-instant.js';
import { tellStep } from './tell-step.js';

/** Lines for the terminal. `graph` is that of the run's version. */
export function tellRun(run: Run, graph: Graph): readonly string[] {
  const steps = bySeq(run.history);
  const width = Math.max(...steps.map(([first]) => first?.node.length ?? 0), 0);
  const lines = steps.flatMap((attempts) => {
    const [first] = attempts;
    if (first === undefined) return [];
    const node = graph.nodes.find(({ id }) => id === first.node);
    return tellStep(attempts, node, run).map(
      (text, index) => `  ${index === 0 ? `${String(first.seq).padStart(3)}  ${first.node.padEnd(width)}` : ' '.repeat(5 + width)}  ${text}`,
    );
  });
  return [`${run.workflowName} · ${nameContact(run.context.contact)}`, ...lines, `  ${' '.repeat(5)}→ ${tellState(run)}`];
}

/** The steps of a history, which comes in order, each with its attempts. */
export function bySeq(history: readonly Attempt[]): readonly (readonly Attempt[])[] {
  const steps = new Map<number, Attempt[]>();
  for (const attempt of history) steps.set(attempt.seq, [...(steps.get(attempt.seq) ?? []), attempt]);
  return [...steps.values()];
}

function tellState({ state, why, endedAt }: Run): string {
  return state === 'succeeded' && endedAt !== null ? `ended well, ${formatInstant(endedAt)}` : why.replaceAll(/\d{4}-\d\d-\d\dT[\d:.]+Z/g, formatInstant);
}

/** Name and address, as far as there are any. */
export function nameContact(contact: ContactSnapshot | null): string {
  if (contact === null) return 'nobody in particular';
  const { first_name: first, last_name: last } = contact.attributes;
  const name = [first, last].filter((part) => typeof part === 'string').join(' ');
  const address = contact.email ?? contact.externalId ?? '';
  return name === '' ? address : `${name} <${address}>`;
}

const REASONS: Readonly<Record<string, string>> = {
  reentry_never: 'this contact has been in the journey before, and its re-entry is set to “never”',
  reentry_running: 'this contact is in the journey at the moment, and may enter again only after that',
  workflow_broken: 'the workflow could not be read',
  event_chain_too_deep: 'too many journeys set each other off',
  not_active: 'the workflow is not active',
  contact_unknown: 'there is no such contact',
};

/** An event that was refused. */
export function tellRefusal(workflowName: string, { eventId, externalId, reason }: { eventId: string; externalId: string; reason: string }): readonly string[] {
  return [`${workflowName} · ${externalId}`, `  no run for event ${eventId}: ${REASONS[reason] ?? reason}`];
}

/** `presentVersionId`: the version that new runs of the workflow take. */
export type Where = { readonly apiUrl: string; readonly keyFile: string; readonly presentVersionId: string | undefined };

/** What a person can do about a run that rests, or undefined: a command for a shell in the checkout. */
export function tellNextMove({ id, versionId, state, waitReason, isHeld }: Run, { apiUrl, keyFile, presentVersionId }: Where): string | undefined {
  const call = (verb: string, body?: string): string =>
    `curl -X POST -H "Authorization: Bearer $(cat ${keyFile})"${body === undefined ? '' : ` -H 'Content-Type: application/json' -d '${body}'`} ${apiUrl}/api/v1/runs/${id}/${verb}`;
  if (isHeld) return undefined;
  switch (state) {
    case 'waiting':
      return waitReason === 'time' ? `to end the wait now: ${call('wake-now')}` : undefined;
    case 'retrying':
      return `to try again now: ${call('retry-now')}`;
    case 'failed':
    case 'dead_lettered':
      return presentVersionId === undefined || presentVersionId === versionId
        ? `to send it back from where it stopped: ${call('replay', '{}')}`
        : `to send it back from where it stopped, on the present version: ${call('replay', JSON.stringify({ versionId: presentVersionId }))}`;
    default:
      return undefined;
  }
}
