/**
 * Sends events to the intake as fast as it takes them: in batches where it has an endpoint for them, else one by one, 64 in flight.
 * Throws when one is not accepted.
 */
import type { Api } from './api.js';
import { inFlight } from './in-flight.js';
import { emailOf } from './journeys.js';

export const BATCH = 500;
export const SINGLES_IN_FLIGHT = 64;
const BATCHES_IN_FLIGHT = 2;

export type EventsPlan = { type: string; count: number };

const eventOf = (type: string, nth: number) => ({ id: `${type}-${nth}`, type, contact: { email: emailOf(nth) } });

export async function sendEvents(api: Api, plan: EventsPlan): Promise<'batches' | 'singles'> {
  if (await sendBatches(api, plan)) return 'batches';
  await sendSingles(api, plan);
  return 'singles';
}

export async function sendSingles(api: Api, { type, count }: EventsPlan): Promise<void> {
  await inFlight(count, SINGLES_IN_FLIGHT, (nth) => api.must('POST', '/events', eventOf(type, nth)));
}

/** Answers false, and has sent nothing, when there is no such endpoint. */
export async function sendBatches(api: Api, { type, count }: EventsPlan): Promise<boolean> {
  const batchOf = (nth: number) =>
    api.call('POST', '/events/batch', {
      events: Array.from({ length: Math.min(BATCH, count - nth * BATCH) }, (_, index) => eventOf(type, nth * BATCH + index)),
    });
  const check = ({ status, body }: Awaited<ReturnType<typeof batchOf>>): void => {
    const results = Array.isArray(body['results']) ? (body['results'] as { status: number }[]) : [];
    const refused = status === 200 ? results.find((one) => one.status > 299) : body;
    if (refused !== undefined || results.length === 0) throw new Error(`POST /events/batch answered ${status}: ${JSON.stringify(refused).slice(0, 500)}`);
  };
  const first = await batchOf(0);
  if (first.status === 404) return false;
  check(first);
  await inFlight(Math.ceil(count / BATCH) - 1, BATCHES_IN_FLIGHT, async (nth) => check(await batchOf(nth + 1)));
  return true;
}
