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
import { comesFromOwnPage, type Html, html, type Link, namesLoopback, readableInstant, sendJson, sendPage, sendRedirect, sendText } from './page.js';

export type Inbox = {
  readonly store: MailStore;
  readonly links: readonly Link[];
  mode(next: MailSinkMode): void;
  release(): void;
};

const SHOWN = 100;

/** Answers one request; never throws. */
export async function answerInboxRequest(request: IncomingMessage, response: ServerResponse, inbox: Inbox): Promise<void> {
  try {
    if (!namesLoopback(request)) return sendText(response, 403, 'This page answers only to 127.0.0.1 and localhost.\n');
    const { pathname } = new URL(request.url ?? '/', 'http://127.0.0.1');
    if (request.method === 'POST') return await answerChange(request, response, inbox, pathname);
    if (pathname === '/') return await sendList(response, inbox);
    if (pathname === '/messages.json') return sendJson(response, 200, await Promise.all(inbox.store.all().map(summarise)));
    const [, id, isRaw] = /^\/message\/([\w-]+)(\/raw)?$/.exec(pathname) ?? [];
    const message = inbox.store.all().find((candidate) => candidate.id === id);
    if (message === undefined) return sendText(response, 404, 'There is no such page or message.\n');
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

async function sendList(response: ServerResponse, { store, links }: Inbox): Promise<void> {
  const all = store.all();
  const newest = all.slice(-SHOWN).reverse();
  const items = await Promise.all(newest.map(describeItem));
  const body =
    all.length === 0
      ? html`<p>No mail yet. Everything Onward sends arrives here and goes no further.</p>`
      : html`<p class="dim">${all.length} received${all.length > SHOWN ? html`, the newest ${SHOWN} shown` : ''}</p><ul class="list">${items}</ul>
<form method="post" action="/_clear"><button>Forget all mail</button></form>`;
  sendPage(response, 200, { title: 'Inbox', links, body });
}

async function describeItem(message: SinkMessage): Promise<Html> {
  const { subject } = await message.parse();
  return html`<li><a href="/message/${message.id}">${subject ?? '(no subject)'}</a>
<div class="row dim"><span>to ${message.to.join(', ')}${describeAnswer(message)}</span><time datetime="${message.receivedAt}">${readableInstant(message.receivedAt)}</time></div></li>`;
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

async function sendMessage(response: ServerResponse, { links }: Inbox, message: SinkMessage): Promise<void> {
  const mail = await message.parse();
  const rows: readonly (readonly [string, string])[] = [
    ['Envelope from', message.from === '' ? '(none)' : message.from],
    ['Envelope to', message.to.join(', ')],
    ['From', mail.from?.text ?? ''],
    ['Received', message.receivedAt],
    ['Message-ID', mail.messageId ?? ''],
  ];
  const attachments = mail.attachments.map(({ filename, contentType, size }) => html`<li>${filename ?? '(no name)'} · ${contentType} · ${size} bytes</li>`);
  const markup = mail.html === false || mail.html === undefined ? undefined : frameOf(mail.html);
  const frame =
    markup === undefined ? '' : html`<iframe title="The message" sandbox="allow-popups allow-popups-to-escape-sandbox" srcdoc="${markup}"></iframe>`;
  const body = html`<dl>${rows.map(([name, value]) => html`<dt>${name}</dt><dd>${value}</dd>`)}</dl>
${frame}
${mail.text === undefined ? '' : html`<h2>Text part</h2><pre>${linkUrls(mail.text)}</pre>`}
${attachments.length === 0 ? '' : html`<h2>Attachments</h2><ul>${attachments}</ul>`}
<details><summary>Source (${message.raw.length} bytes)</summary><pre>${message.raw.toString('utf8')}</pre></details>
<p><a href="/message/${message.id}/raw">Source as plain text</a></p>`;
  sendPage(response, 200, { title: mail.subject ?? '(no subject)', links: [{ label: 'Inbox', url: '/' }, ...links], body });
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
