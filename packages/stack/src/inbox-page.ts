/**
 * The inbox of the mail sink: a list, one message with its parts and its source, and the same as JSON for programs.
 *
 * A message's HTML is shown in a frame without scripts, forms or access to this page; its links open in a new tab.
 *   GET /                     the newest messages          GET /messages.json    all, without bodies
 *   GET /message/<id>         one message                  GET /message/<id>/raw its bytes
 *   POST /_mode               a MailSinkMode as JSON       POST /_release, POST /_clear
 */
import type { IncomingMessage, ServerResponse } from 'node:http';
import { json } from 'node:stream/consumers';
import { type MailSinkMode, readMailSinkMode } from './mail-sink-mode.js';
import type { MailStore, SinkMessage } from './mail-store.js';
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

export type Inbox = {
  readonly store: MailStore;
  readonly links: readonly Link[];
  mode(next: MailSinkMode): void;
  release(): void;
};

const SHOWN = 100;

function navigate({ links }: Inbox, current?: 'page' | 'true'): readonly Link[] {
  return [{ label: 'Inbox', url: '/', ...(current === undefined ? {} : { current }) }, ...links];
}

/** Answers one request; never throws. */
export async function answerInboxRequest(request: IncomingMessage, response: ServerResponse, inbox: Inbox): Promise<void> {
  try {
    if (!namesLoopback(request)) return sendText(response, 403, 'This page answers only to 127.0.0.1 and localhost.\n');
    if (!URL.canParse(request.url ?? '/', 'http://127.0.0.1')) return void response.writeHead(400).end();
    const { pathname } = new URL(request.url ?? '/', 'http://127.0.0.1');
    if (request.method === 'POST') return await answerChange(request, response, inbox, pathname);
    if (pathname === '/') return await sendList(response, inbox);
    if (pathname === '/messages.json') return sendJson(response, 200, await Promise.all(inbox.store.all().map(summarise)));
    const [, id, isRaw] = /^\/message\/([\w-]+)(\/raw)?$/.exec(pathname) ?? [];
    const message = inbox.store.all().find((candidate) => candidate.id === id);
    if (message === undefined)
      return sendNotFound(response, {
        what: id === undefined ? 'No such page' : 'No such message',
        links: navigate(inbox),
        back: { label: 'To the inbox', url: '/' },
      });
    return isRaw === undefined ? await sendMessage(response, inbox, message) : sendText(response, 200, message.raw);
  } catch (error) {
    if (!response.headersSent) sendText(response, 500, `${error instanceof Error ? error.message : String(error)}\n`);
  }
}

async function answerChange(request: IncomingMessage, response: ServerResponse, inbox: Inbox, pathname: string): Promise<void> {
  if (!comesFromOwnPage(request)) return sendText(response, 403, 'Changes come from this page or from a program.\n');
  if (pathname === '/_clear') {
    inbox.store.clear();
    return sendRedirect(response, '/');
  }
  if (pathname === '/_release') inbox.release();
  else if (pathname === '/_mode') {
    const mode = readMailSinkMode(await json(request).catch(() => undefined));
    if (mode === undefined) return sendText(response, 400, 'A mode is JSON such as {"kind":"late","delayMs":500}.\n');
    inbox.mode(mode);
  } else return sendText(response, 404, 'There is no such page.\n');
  sendJson(response, 200, { ok: true });
}

async function summarise(message: SinkMessage): Promise<Record<string, unknown>> {
  const { subject, messageId } = await message.parse();
  const { id, receivedAt, from, to, answer, raw } = message;
  return { id, receivedAt, from, to, answer, bytes: raw.length, subject: subject ?? '', messageId: messageId ?? null };
}

async function sendList(response: ServerResponse, inbox: Inbox): Promise<void> {
  const all = inbox.store.all();
  const newest = all.slice(-SHOWN).reverse();
  const items = await Promise.all(newest.map(describeItem));
  const body =
    all.length === 0
      ? html`<p>No mail yet. Everything Onward sends arrives here and goes no further.</p>`
      : html`<p class="dim">${all.length} received${all.length > SHOWN ? html`, the newest ${SHOWN} shown` : ''}</p><ul class="list">${items}</ul>
${offerToForget('mail', all.length)}`;
  sendPage(response, 200, { title: 'Inbox', links: navigate(inbox, 'page'), body, reloadUrl: '/' });
}

async function describeItem(message: SinkMessage): Promise<Html> {
  const { subject } = await message.parse();
  return html`<li><a class="item" href="/message/${message.id}"><span class="subject">${subject ?? '(no subject)'}</span>
<span class="row dim"><span>to ${message.to.join(', ')}${describeAnswer(message)}</span>${showInstant(message.receivedAt)}</span></a></li>`;
}

function describeAnswer({ answer }: SinkMessage): string {
  switch (answer) {
    case 'accepted':
      return '';
    case 'pending':
      return ' · not answered yet';
    case 'refused':
      return ' · refused';
    case 'dropped':
      return ' · connection cut before the answer';
    default:
      return answer satisfies never;
  }
}

async function sendMessage(response: ServerResponse, inbox: Inbox, message: SinkMessage): Promise<void> {
  const mail = await message.parse();
  const attachments = mail.attachments.map(({ filename, contentType, size }) => html`<li>${filename ?? '(no name)'} · ${contentType} · ${size} bytes</li>`);
  const markup = mail.html === false || mail.html === undefined ? undefined : frameOf(mail.html);
  const text = mail.text === undefined ? '' : html`<pre>${linkUrls(mail.text)}</pre>`;
  const parts =
    markup === undefined
      ? text
      : html`<iframe title="The message" sandbox="allow-popups allow-popups-to-escape-sandbox" srcdoc="${markup}"></iframe>
${text === '' ? '' : html`<details><summary>Text part</summary>${text}</details>`}`;
  const body = html`<dl><dt>From</dt><dd>${mail.from?.text ?? '(none)'}</dd><dt>To</dt><dd>${message.to.join(', ')}</dd>
<dt>Received</dt><dd>${showInstant(message.receivedAt)}${describeAnswer(message)}</dd></dl>
${parts}
${attachments.length === 0 ? '' : html`<h2>Attachments</h2><ul>${attachments}</ul>`}
<details><summary>Source (${message.raw.length.toLocaleString('en')} bytes)</summary>
<dl><dt>Envelope from</dt><dd>${message.from === '' ? '(none)' : message.from}</dd><dt>Envelope to</dt><dd>${message.to.join(', ')}</dd>
<dt>Message-ID</dt><dd>${mail.messageId ?? '(none)'}</dd></dl>
<pre>${message.raw.toString('utf8')}</pre><p><a href="/message/${message.id}/raw">As plain text</a></p></details>`;
  sendPage(response, 200, { title: mail.subject ?? '(no subject)', links: navigate(inbox, 'true'), body });
}

/** Text whose http and https addresses can be followed, in a new tab. */
function linkUrls(text: string): readonly Html[] {
  return text
    .split(/(https?:\/\/[^\s<>"']+)/)
    .map((part, index) => (index % 2 === 0 ? html`${part}` : html`<a href="${part}" target="_blank" rel="noreferrer">${part}</a>`));
}

/** `base` sends links to a new tab; the frame itself cannot navigate anything. */
function frameOf(markup: string): string {
  return `<!doctype html><base target="_blank"><meta name="referrer" content="no-referrer">${markup}`;
}
