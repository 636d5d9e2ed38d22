/** Posts the events of a journey, each once ever: one that Onward knows by its id is not sent again and led to what it led to then. */
import type { Api } from './api.js';
import type { LoadedJourney } from './load-samples.js';

/** What became of one event in this journey: a run, a refusal with its reason, or nothing (the workflow did not wait for it). */
export type SentEvent = {
  readonly eventId: string;
  readonly externalId: string;
  readonly isNew: boolean;
  readonly runId: string | undefined;
  readonly refusal: string | undefined;
};

type Led = {
  readonly runs: readonly { readonly workflowId: string; readonly runId: string }[];
  readonly refusals: readonly { readonly workflowId: string; readonly reason: string }[];
};

export async function sendEvents(api: Api, { events, workflowId }: LoadedJourney): Promise<readonly SentEvent[]> {
  const sent: SentEvent[] = [];
  for (const event of events) {
    const known = await api.find<Led>(`/events/${event.id}`);
    const led = known ?? (await api.post<Led>('/events', event));
    const isOwn = (one: { readonly workflowId: string }): boolean => one.workflowId === workflowId;
    sent.push({
      eventId: event.id,
      externalId: event.contact.externalId,
      isNew: known === undefined,
      runId: led.runs.find(isOwn)?.runId,
      refusal: led.refusals.find(isOwn)?.reason,
    });
  }
  return sent;
}
