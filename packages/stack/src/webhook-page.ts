/**
 * The page of the webhook sink, its records as JSON, and the switch of its mode.
 *
 *   GET /_requests            what arrived, newest first    GET /_requests.json       all, bodies as text
 *   POST /_mode?kind=status&status=429&header=Retry-After:5 how it answers from now on (see readWebhookSinkMode)
 *   POST /_clear
 */
import type { IncomingMessage, ServerResponse } from 'node:http';
import { comesFromOwnPage, type Html, html, type Link, namesLoopback, readableInstant, sendJson, sendPage, sendRedirect, sendText } from './page.js';
import type { WatchedList } from './watched-list.js';
import { readWebhookSinkMode, type SinkRequest, type WebhookSinkMode } from './webhook-sink-mode.js';

export type WebhookPage = {
  readonly list: WatchedList<SinkRequest>;
  readonly links: readonly Link[];
  mode(next: WebhookSinkMode): void;
  /** Undefined while a test decides for each request. */
  currentMode(): WebhookSinkMode | undefined;
};

const SHOWN = 100;

/** Answers one request to the sink itself; never throws. */
export async function answerSinkRequest(request: IncomingMessage, response: ServerResponse, page: WebhookPage): Promise<void> {
  if (!namesLoopback(request)) return sendText(response, 403, 'This page answers only to 127.0.0.1 and localhost.\n');
  const { pathname, searchParams } = new URL(request.url ?? '/', 'http://127.0.0.1');
  if (request.method === 'POST') return answerChange(request, response, page, pathname, searchParams);
  if (pathname === '/_requests') return sendList(response, page);
  if (pathname === '/_requests.json') return sendJson(response, 200, page.list.all().map(describe));
  sendText(response, 404, 'There is no such page.\n');
}

function answerChange(request: IncomingMessage, response: ServerResponse, page: WebhookPage, pathname: string, query: URLSearchParams): void {
  if (!comesFromOwnPage(request)) return sendText(response, 403, 'Changes come from this page or from a program.\n');
  if (pathname === '/_clear') page.list.clear();
  else if (pathname === '/_mode') {
    const mode = readWebhookSinkMode(query);
    if (mode === undefined) return sendText(response, 400, 'A mode is, for example, ?kind=ok, ?kind=fail or ?kind=status&status=429&header=Retry-After:5\n');
    page.mode(mode);
  } else return sendText(response, 404, 'There is no such page.\n');
  if (request.headers.accept?.includes('text/html') === true) return sendRedirect(response, '/_requests');
  sendJson(response, 200, { ok: true });
}

function describe({ at, method, path, headers, body, isComplete }: SinkRequest): Record<string, unknown> {
  return { at, method, path, headers, body: body.toString('utf8'), isComplete };
}

const SWITCHES = [
  { kind: 'ok', label: 'Answer 200' },
  { kind: 'fail', label: 'Answer 500' },
  { kind: 'hang', label: 'Never answer' },
  { kind: 'reset', label: 'Reset the connection' },
] as const;

function sendList(response: ServerResponse, { list, links, currentMode }: WebhookPage): void {
  const all = list.all();
  const current = currentMode()?.kind;
  const buttons = SWITCHES.map(
    ({ kind, label }) => html`<button formaction="/_mode?kind=${kind}" aria-pressed="${kind === current ? 'true' : 'false'}">${label}</button>`,
  );
  const items = all.slice(-SHOWN).reverse().map(describeItem);
  const body = html`<p>What Onward calls arrives here. How should it be answered?</p>
<form method="post">${buttons}</form>
${all.length === 0 ? html`<p>No request yet.</p>` : html`<p class="dim">${all.length} received</p><ul class="list">${items}</ul>`}
${all.length === 0 ? '' : html`<form method="post" action="/_clear"><button>Forget all requests</button></form>`}`;
  sendPage(response, 200, { title: 'Webhook sink', links, body });
}

function describeItem({ at, method, path, rawHeaders, body, isComplete }: SinkRequest): Html {
  const lines = rawHeaders.flatMap((name, index) => (index % 2 === 0 ? [`${name}: ${rawHeaders[index + 1] ?? ''}`] : []));
  return html`<li><details><summary><strong>${method}</strong> ${path}
<span class="dim"> · <time datetime="${at}">${readableInstant(at)}</time> · ${body.length} bytes${isComplete ? '' : ', cut short'}</span></summary>
<pre>${lines.join('\n')}

${body.toString('utf8')}</pre></details></li>`;
}
