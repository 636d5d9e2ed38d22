/**
 * One step of a run in words: a line for each attempt, or one for a node that only chose the way.
 *
 * Reads what the run recorded and nothing else, so the words hold whatever the journey has become since. Whatever is not
 * foreseen here is told by the names it has in the history.
 */
import type { Attempt, GraphNode, Run, RunMessage } from './api-answers.js';
import { formatInstant } from './format-instant.js';

/** Attempts of a step before it is given up. */
const ATTEMPTS = 3;
/** A wait that is over this soon was over when it began, in ms; no wait by duration is shorter than a minute. */
const AT_ONCE_MS = 10_000;

/** `attempts` are those of one step, in order; `node` is the graph's, undefined when the graph no longer has it. */
export function tellStep(attempts: readonly Attempt[], node: GraphNode | undefined, run: Run): readonly string[] {
  const [first] = attempts;
  if (first === undefined) return [];
  const again = first.replayOf === null ? '' : `replayed from step ${first.replayOf}: `;
  const [start = '', ...others] =
    first.nodeType === 'action' ? attempts.map((attempt, index) => tellAttempt(attempt, attempts[index + 1], node, run)) : [tellOther(first, node, run)];
  return [`${again}${start}`, ...others];
}

function tellOther(attempt: Attempt, node: GraphNode | undefined, run: Run): string {
  if (attempt.failure !== null) return `failed: ${attempt.failure.message}`;
  switch (attempt.nodeType) {
    case 'trigger':
      return run.context.event === null ? 'begun' : `event ${run.context.event.type}`;
    case 'condition':
      return `${tellSeen(attempt.input)} → ${attempt.port}`;
    case 'wait':
      return tellWait(attempt, run);
    case 'end':
      return 'the end of the journey';
    default:
      return `${attempt.nodeType}${attempt.mark === 'unknown_node' ? ', which is not known here, was passed without acting' : `, left by ${attempt.port ?? 'no port'}`}`;
  }
}

function tellSeen(input: unknown): string {
  const seen = Array.isArray(input) ? (input as { field: string; value: unknown }[]) : [];
  return seen.map(({ field, value }) => (value === null || value === undefined ? `saw no ${field}` : `saw ${field} = ${plain(value)}`)).join(', ');
}

function tellWait({ status, startedAt, endedAt }: Attempt, { dueAt }: Run): string {
  if (status === 'waiting') return dueAt === null ? 'waits' : `waits until ${formatInstant(dueAt)}`;
  if (endedAt === null) return 'about to wait';
  const hadPassed = Date.parse(endedAt) - Date.parse(startedAt) < AT_ONCE_MS;
  return hadPassed ? 'went on at once: the instant it was to wait for had passed' : `waited until ${formatInstant(endedAt)}`;
}

function tellAttempt(attempt: Attempt, next: Attempt | undefined, node: GraphNode | undefined, run: Run): string {
  const action = typeof node?.config['action'] === 'string' ? node.config['action'] : 'action';
  const message = run.messages.find(({ seq }) => seq === attempt.seq);
  switch (attempt.status) {
    case 'done':
      return `${attempt.n > 1 ? `attempt ${attempt.n} of ${ATTEMPTS}: ` : ''}${tellDone(action, attempt, message)}`;
    case 'failed':
    case 'uncertain':
      return `${tellWhat(action, attempt)}: attempt ${attempt.n} of ${ATTEMPTS} ${attempt.status === 'failed' ? 'failed' : 'is uncertain'}: ${attempt.failure?.message ?? 'no reason was given'}${tellConsequence(attempt, next, run)}`;
    case 'open':
    case 'sending':
    case 'waiting':
      return `${tellWhat(action, attempt)}: under way`;
    case 'not_sent':
      return `${tellWhat(action, attempt)}: not sent yet`;
    default:
      return attempt.status satisfies never;
  }
}

function tellConsequence({ verb, port }: Attempt, next: Attempt | undefined, { dueAt }: Run): string {
  const nextAt = next?.startedAt ?? dueAt;
  switch (verb) {
    case 'retry':
      return nextAt === null ? '; to be tried again' : `; ${next === undefined ? 'to be tried' : 'tried'} again ${formatInstant(nextAt)}`;
    case 'dead-letter':
      return '; it was the last: dead letter';
    case 'fail':
      return '; no retry can cure it';
    default:
      return port === null ? '' : `; went on by ${port}`;
  }
}

function tellDone(action: string, attempt: Attempt, message: RunMessage | undefined): string {
  const output = fieldsOf(attempt.output);
  switch (action) {
    case 'SEND_MAIL':
      if (attempt.mark === 'skipped') return `${tellWhat(action, attempt)} left out: ${plain(output['skipped'])}`;
      if (attempt.mark === 'uncertain') return `${tellWhat(action, attempt)}: nobody can say whether it arrived`;
      return `${tellWhat(action, attempt)} accepted by SMTP${message?.response ? ` (${message.response.split(' ', 1)[0]})` : ''}`;
    case 'FORWARD_REQUEST':
      return `${tellWhat(action, attempt)} → ${plain(output['status'])}`;
    case 'ADD_TAG':
      return `tag ${plain(output['tag'])} ${output['changed'] === true ? 'added' : 'was there already'}`;
    case 'MOVE_TO_LIST':
      return `moved ${output['left'] === true ? `from list ${plain(nameOf(output['from']))} ` : ''}to list ${plain(nameOf(output['to']))}`;
    default:
      return `${action} done`;
  }
}

/** What an attempt is about, by the values it was filled with. */
function tellWhat(action: string, { input }: Attempt): string {
  const { subject, to, method, url } = fieldsOf(input);
  if (action === 'SEND_MAIL' && typeof subject === 'string' && typeof to === 'string') return `mail ${plain(subject)} to ${to}`;
  if (action === 'FORWARD_REQUEST' && typeof method === 'string' && typeof url === 'string') return `request ${method} ${url}`;
  return action;
}

function fieldsOf(value: unknown): Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : {};
}

function nameOf(list: unknown): unknown {
  return fieldsOf(list)['name'] ?? list;
}

/** Texts in quotes, anything else as JSON. */
function plain(value: unknown): string {
  return typeof value === 'string' ? `“${value}”` : JSON.stringify(value);
}
