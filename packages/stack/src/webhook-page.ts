/**
 * The page of the webhook sink, its records as JSON, and the switch of its mode.
 *
 *   GET /_requests            what arrived, newest first    GET /_requests.json       all, bodies as text
 *   POST /_mode?kind=status&status=429&header=Retry-After:5 how it answers from now on (see readWebhookSinkMode)
 *   POST /_clear
 */
import type { IncomingMessage, ServerResponse } from 'node:http';
import {
  comesFromOwnPage,
  type Html,
  html,
  type Link,
  namesLoopback,
  offerToForget,
  sendJson,
  sendNotFound,
  sendPage,
  sendRedirect,
  sendText,
  showInstant,
} from './page.js';
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
const PAGE = '/_requests';

/** Answers one request to the sink itself; never throws. */
export async function answerSinkRequest(request: IncomingMessage, response: ServerResponse, page: WebhookPage): Promise<void> {
  if (!namesLoopback(request)) return sendText(response, 403, 'This page answers only to 127.0.0.1 and localhost.\n');
  if (!URL.canParse(request.url ?? '/', 'http://127.0.0.1')) return void response.writeHead(400).end();
  const { pathname, searchParams } = new URL(request.url ?? '/', 'http://127.0.0.1');
  if (request.method === 'POST') return answerChange(request, response, page, pathname, searchParams);
  if (pathname === PAGE) return sendList(response, page);
  if (pathname === '/_requests.json') return sendJson(response, 200, page.list.all().map(describe));
  const links = [...page.links, { label: 'Webhook sink', url: PAGE }];
  sendNotFound(response, { what: 'No such page', links, back: { label: 'To the requests', url: PAGE } });
}

function answerChange(request: IncomingMessage, response: ServerResponse, page: WebhookPage, pathname: string, query: URLSearchParams): void {
  if (!comesFromOwnPage(request)) return sendText(response, 403, 'Changes come from this page or from a program.\n');
  if (pathname === '/_clear') page.list.clear();
  else if (pathname === '/_mode') {
    const mode = readWebhookSinkMode(query);
    if (mode === undefined) return sendText(response, 400, 'A mode is, for example, ?kind=ok, ?kind=fail or ?kind=status&status=429&header=Retry-After:5\n');
    page.mode(mode);
  } else return sendText(response, 404, 'There is no such page.\n');
  if (request.headers.accept?.includes('text/html') === true) return sendRedirect(response, PAGE);
  sendJson(response, 200, { ok: true });
}

function describe({ at, method, path, headers, body, isComplete, answer }: SinkRequest): Record<string, unknown> {
  return { at, method, path, headers, body: body.toString('utf8'), isComplete, answer: answer ?? null };
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
  const body = html`<p>What Onward calls arrives here, and goes no further. How should it be answered?</p>
<form method="post">${buttons}</form>
${current === undefined || SWITCHES.some(({ kind }) => kind === current) ? '' : html`<p class="dim">A program has asked for another answer: ${current}.</p>`}
${
  all.length === 0
    ? html`<p>No request yet.</p>`
    : html`<p class="dim">${all.length} received since the start${all.length > SHOWN ? html`, the newest ${SHOWN} shown` : ''}</p><ul class="list">${items}</ul>
${offerToForget('requests', all.length)}`
}`;
  sendPage(response, 200, { title: 'Webhook sink', links: [...links, { label: 'Webhook sink', url: PAGE, current: 'page' }], body, reloadUrl: PAGE });
}

function describeItem(request: SinkRequest): Html {
  const { at, method, path, headers, rawHeaders, body, isComplete } = request;
  const lines = rawHeaders.flatMap((name, index) => (index % 2 === 0 ? [`${name}: ${rawHeaders[index + 1] ?? ''}`] : []));
  const key = headers['idempotency-key'];
  return html`<li><details><summary class="item"><span class="row"><span class="subject">${method} ${path}</span>${describeAnswer(request)}</span>
<span class="row dim"><span>${body.length.toLocaleString('en')} bytes${isComplete ? '' : ', cut short'}${key === undefined ? '' : html` · key ${shorten(key)}`}</span>${showInstant(at)}</span></summary>
<div class="inside">${body.length === 0 ? html`<p class="dim">No body.</p>` : html`<pre>${readableBody(body.toString('utf8'))}</pre>`}
<details><summary>Headers (${lines.length})</summary><pre>${lines.join('\n')}</pre></details></div></details></li>`;
}

function describeAnswer({ answer }: SinkRequest): Html {
  if (answer === undefined) return html`<span class="dim">not answered yet</span>`;
  switch (answer.kind) {
    case 'none':
      return html`<span class="bad">no answer</span>`;
    case 'status': {
      const isBad = answer.status >= 400 || !answer.isWhole;
      return html`<span class="${isBad ? 'bad' : ''}">→ ${answer.status}${answer.isWhole ? '' : ', cut short'}</span>`;
    }
    default:
      return answer satisfies never;
  }
}

/** Enough of a key to see which requests share it: its end, where the time-ordered ones differ. */
function shorten(key: string): string {
  return key.length <= 16 ? key : `${key.slice(0, 4)}…${key.slice(-8)}`;
}

/** JSON with its lines broken, when that changes nothing but white space (numbers keep their digits); anything else as it came. */
function readableBody(body: string): string {
  try {
    const pretty = JSON.stringify(JSON.parse(body), null, 2);
    return pretty.replaceAll(/\s/g, '') === body.replaceAll(/\s/g, '') ? pretty : body;
  } catch {
    return body;
  }
}
