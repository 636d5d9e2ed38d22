/**
 * The plain HTML of the sinks' pages: escaping, one layout, and the rules that keep recorded content harmless.
 *
 * What the pages show was sent by anybody, so everything goes through `html`, which escapes; only `Html` made by it is
 * taken as is. The policy of every page allows no script at all. Pages answer only requests that name a loopback host,
 * so that a web site cannot read the inbox through a name it points at 127.0.0.1 (DNS rebinding), and changes are
 * refused when a browser says they come from another site.
 */
import type { IncomingMessage, ServerResponse } from 'node:http';

/** Text that is HTML already. */
export type Html = { readonly markup: string };

export type HtmlPart = Html | string | number | readonly Html[];

/** Puts values into markup, escaped unless they are `Html`. */
export function html(texts: TemplateStringsArray, ...parts: readonly HtmlPart[]): Html {
  return { markup: texts.reduce((markup, text, index) => markup + toMarkup(parts[index - 1] ?? '') + text) };
}

function toMarkup(part: HtmlPart): string {
  if (typeof part === 'string' || typeof part === 'number') return escapeHtml(String(part));
  return 'markup' in part ? part.markup : part.map(({ markup }) => markup).join('');
}

/** Safe as element content and inside a quoted attribute. */
export function escapeHtml(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;').replaceAll('"', '&quot;').replaceAll("'", '&#39;');
}

export type Link = {
  readonly label: string;
  readonly url: string;
  /** `page`: the one shown; `true`: the one shown belongs to it (WAI-ARIA 1.2, aria-current). */
  readonly current?: 'page' | 'true';
};

/**
 * Mail loads its images only from this machine (open tracking works, the world hears nothing); styles inside a message are
 * its own business. An iframe with srcdoc inherits this policy.
 */
const POLICY =
  "default-src 'none'; style-src 'unsafe-inline'; img-src data: http://127.0.0.1:* http://localhost:*; frame-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

const STYLE = `
:root { color-scheme: light dark; --line: #8884; --soft: #8882; --dim: #6b6b6b; --accent: #0b63c5; --bad: #b3261e; }
@media (prefers-color-scheme: dark) { :root { --dim: #a5a5a5; --accent: #7db6ff; --bad: #ff9a90; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 60rem; padding: 1rem; font: 1rem/1.5 system-ui, sans-serif; overflow-wrap: anywhere; }
header { border-bottom: 1px solid var(--line); display: flex; flex-wrap: wrap; align-items: center; gap: 0 1rem; padding-bottom: 0.25rem; }
nav { display: flex; gap: 0 0.25rem; }
nav a { display: flex; align-items: center; min-height: 2.75rem; padding: 0 0.6rem; text-decoration: none; border-radius: 0.4rem; }
nav a:hover { background: var(--soft); }
nav a[aria-current] { color: inherit; font-weight: 600; box-shadow: inset 0 -2px var(--accent); border-radius: 0; }
h1 { font-size: 1.25rem; line-height: 1.3; margin: 0; }
h2 { font-size: 1rem; margin: 1.25rem 0 0.25rem; }
a { color: var(--accent); }
time { white-space: nowrap; }
.title { display: flex; flex-wrap: wrap; align-items: center; justify-content: space-between; gap: 0 1rem; margin: 0.75rem 0 0.25rem; }
.title > a { display: flex; align-items: center; min-height: 2.75rem; }
ul.list { list-style: none; margin: 0.5rem 0 0; padding: 0; border-top: 1px solid var(--line); }
ul.list > li { border-bottom: 1px solid var(--line); }
.item { display: block; min-height: 2.75rem; padding: 0.6rem 0.5rem; color: inherit; text-decoration: none; }
.item:hover { background: var(--soft); }
.subject { color: var(--accent); font-weight: 600; }
.dim { color: var(--dim); font-size: 0.875rem; }
.row { display: flex; flex-wrap: wrap; justify-content: space-between; align-items: baseline; gap: 0 1rem; }
.bad { color: var(--bad); }
.inside { padding: 0 0.5rem 0.5rem; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: 0.15rem 0.75rem; margin: 0.5rem 0; }
dt { color: var(--dim); } dd { margin: 0; }
pre { background: var(--soft); padding: 0.75rem; margin: 0.5rem 0; border-radius: 0.4rem; white-space: pre-wrap; font: 0.8125rem/1.5 ui-monospace, monospace; }
iframe { display: block; width: 100%; height: 16rem; min-height: 6rem; margin: 0.75rem 0; resize: vertical; overflow: auto; border: 1px solid var(--line); border-radius: 0.4rem; background: #fff; }
form { display: flex; flex-wrap: wrap; gap: 0.5rem; margin: 0.5rem 0; }
button { font: inherit; padding: 0.5rem 0.9rem; min-height: 2.75rem; border-radius: 0.4rem; border: 1px solid var(--line); background: var(--soft); color: inherit; cursor: pointer; }
button[aria-pressed='true'] { border-color: var(--accent); color: var(--accent); font-weight: 600; }
summary { cursor: pointer; padding: 0.6rem 0; min-height: 2.75rem; }
summary.item { padding: 0.6rem 0.5rem; }
summary.item .subject::before { content: '▸ '; }
details[open] > summary.item .subject::before { content: '▾ '; }
.forget { margin-top: 2.5rem; }
`;

/** `links` leads to the pages of the stack, this one included; `reloadUrl` is this page's own, when it changes by itself. */
export type Page = { readonly title: string; readonly links: readonly Link[]; readonly body: Html; readonly reloadUrl?: string };

/** Sends one page. */
export function sendPage(response: ServerResponse, status: number, { title, links, body, reloadUrl }: Page): void {
  const navigation = links.map(
    ({ label, url, current }) => html`<a href="${url}"${current === undefined ? '' : html` aria-current="${current}"`}>${label}</a>`,
  );
  const page = html`<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>${title} · Onward</title><link rel="icon" href="data:,"><style>${{ markup: STYLE }}</style></head>
<body><header><strong>Onward</strong><nav aria-label="Pages">${navigation}</nav></header>
<main><div class="title"><h1>${title}</h1>${reloadUrl === undefined ? '' : html`<a href="${reloadUrl}">Reload</a>`}</div>${body}</main></body></html>`;
  response.writeHead(status, {
    'content-type': 'text/html; charset=utf-8',
    'content-security-policy': POLICY,
    'x-content-type-options': 'nosniff',
    'referrer-policy': 'same-origin',
    'cache-control': 'no-store',
  });
  response.end(page.markup);
}

export function sendJson(response: ServerResponse, status: number, value: unknown): void {
  response.writeHead(status, { 'content-type': 'application/json; charset=utf-8', 'x-content-type-options': 'nosniff', 'cache-control': 'no-store' });
  response.end(JSON.stringify(value, null, 2));
}

/** A page that says there is nothing at this address, with the way back. */
export function sendNotFound(response: ServerResponse, { what, links, back }: { what: string; links: readonly Link[]; back: Link }): void {
  const body = html`<p>It may have been forgotten since, or the address was cut short.</p><p><a href="${back.url}">${back.label}</a></p>`;
  sendPage(response, 404, { title: what, links, body });
}

/** An ISO 8601 instant in UTC, for people to the second and for programs as it is. */
export function showInstant(iso: string): Html {
  return html`<time datetime="${iso}">${iso.slice(0, 19).replace('T', ' ')} UTC</time>`;
}

/** A button that takes a second click to reach: what it forgets is gone. */
export function offerToForget(what: string, count: number): Html {
  return html`<details class="forget"><summary>Forget all ${what} …</summary>
<form method="post" action="/_clear"><button>Forget ${count === 1 ? 'the one' : `all ${count}`}, for good</button></form></details>`;
}

/** Plain text, whatever it contains. */
export function sendText(response: ServerResponse, status: number, text: string | Uint8Array): void {
  response.writeHead(status, { 'content-type': 'text/plain; charset=utf-8', 'x-content-type-options': 'nosniff', 'cache-control': 'no-store' });
  response.end(text);
}

export function sendRedirect(response: ServerResponse, path: string): void {
  response.writeHead(303, { location: path });
  response.end();
}

/** Whether the request names this machine as its host. */
export function namesLoopback(request: IncomingMessage): boolean {
  return /^(127\.0\.0\.1|localhost|\[::1\])(:\d+)?$/i.test(request.headers.host ?? '');
}

/** Whether a change may be made: programs send no Origin; a browser must say that it comes from our own page. */
export function comesFromOwnPage(request: IncomingMessage): boolean {
  const { origin, host } = request.headers;
  const site = request.headers['sec-fetch-site'];
  return (origin === undefined || origin === `http://${host}`) && (site === undefined || site === 'same-origin' || site === 'none');
}
