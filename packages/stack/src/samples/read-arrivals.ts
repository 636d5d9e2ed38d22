/** What has arrived at the mail sink and the webhook sink, as their JSON pages show it. */
import { setTimeout as pause } from 'node:timers/promises';
import type { InboxMail, SinkRequest } from './api-answers.js';
import type { Arrivals } from './compare-arrivals.js';

export type Sinks = { readonly inboxUrl: string | undefined; readonly sinkUrl: string; readonly signal: AbortSignal };

const LOOK_EVERY_MS = 150;
const PATIENCE_MS = 20_000;

/** Mail about failed runs leaves after them, so the inbox is looked at until `mailCount` are there, for a while at most. */
export async function readArrivals({ inboxUrl, sinkUrl, signal }: Sinks, mailCount: number): Promise<Arrivals> {
  const requests = await readJson<readonly SinkRequest[]>(`${sinkUrl}/_requests.json`, signal);
  if (inboxUrl === undefined) return { mails: undefined, requests };
  for (const giveUpAt = Date.now() + PATIENCE_MS; ; await pause(LOOK_EVERY_MS, undefined, { signal })) {
    const mails = await readJson<readonly InboxMail[]>(`${inboxUrl}/messages.json`, signal);
    if (mails.length >= mailCount || Date.now() > giveUpAt) return { mails, requests };
  }
}

async function readJson<Answer>(url: string, signal: AbortSignal): Promise<Answer> {
  const response = await fetch(url, { signal });
  if (!response.ok) throw new Error(`${url} was answered ${response.status}`);
  return (await response.json()) as Answer;
}
