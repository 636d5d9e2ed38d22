/**
 * A client of the API as its rules ask for one: it sends an event again, under the same id and with the same body, while the connection breaks or the answer is
 * 503, and takes turns among the backends. It gives up on anything else at once.
 */
import { setTimeout as pause } from 'node:timers/promises';
import type { Api } from './api.js';

export type Event = { id: string; type: string; contact: { email: string; attributes?: Record<string, unknown> }; payload?: Record<string, unknown> };

/** How an event fared. `answers` holds the status of every try in order, 0 for a connection that broke. */
export type SentEvent = { id: string; answers: number[]; isAccepted: boolean };

const AGAIN_AFTER_MS = 250;

export async function sendEvent(apis: readonly Api[], event: Event, { turn = 0, withinMs = 90_000 } = {}): Promise<SentEvent> {
  const answers: number[] = [];
  for (const deadline = performance.now() + withinMs; ; await pause(AGAIN_AFTER_MS)) {
    const api = apis[(turn + answers.length) % apis.length];
    if (!api) throw new Error('There is no backend to send to');
    const status = await api.call('POST', '/events', event).then(
      (answer) => answer.status,
      () => 0,
    );
    answers.push(status);
    if (status >= 200 && status < 300) return { id: event.id, answers, isAccepted: true };
    if ((status !== 0 && status !== 503) || performance.now() > deadline) return { id: event.id, answers, isAccepted: false };
  }
}

export type Traffic = {
  /** Ends the sending; answers how each event fared, once the last has been answered. */
  stop(): Promise<SentEvent[]>;
};

/** Sends `perSecond` events a second, evenly, waiting for no answer, until it is stopped. */
export function startTraffic(apis: readonly Api[], perSecond: number, eventOf: (nth: number) => Event): Traffic {
  const sent: Promise<SentEvent>[] = [];
  const timer = setInterval(() => sent.push(sendEvent(apis, eventOf(sent.length), { turn: sent.length })), 1_000 / perSecond);
  return {
    stop: () => {
      clearInterval(timer);
      return Promise.all(sent);
    },
  };
}
