/** Sends events to the intake as fast as it takes them: in batches, or one by one, 64 in flight. Throws when one is not accepted. */
import type { Api } from './api.js';
import { inFlight } from './in-flight.js';
import { emailOf } from './journeys.js';

export const BATCH = 500;
export const SINGLES_IN_FLIGHT = 64;
const BATCHES_IN_FLIGHT = 2;

export type EventsPlan = { type: string; count: number };

const eventOf = (type: string, nth: number) => ({ id: `${type}-${nth}`, type, contact: { email: emailOf(nth) } });

export async function sendSingles(api: Api, { type, count }: EventsPlan): Promise<void> {
  await inFlight(count, SINGLES_IN_FLIGHT, (nth) => api.must('POST', '/events', eventOf(type, nth)));
}

export async function sendBatches(api: Api, { type, count }: EventsPlan): Promise<void> {
  await inFlight(Math.ceil(count / BATCH), BATCHES_IN_FLIGHT, async (nth) => {
    const events = Array.from({ length: Math.min(BATCH, count - nth * BATCH) }, (_, index) => eventOf(type, nth * BATCH + index));
    const { status, body } = await api.call('POST', '/events/batch', { events });
    const results = Array.isArray(body['results']) ? (body['results'] as { status: number }[]) : [];
    const refused = status === 200 ? results.find((one) => one.status > 299) : body;
    if (refused !== undefined || results.length === 0) throw new Error(`POST /events/batch answered ${status}: ${JSON.stringify(refused).slice(0, 500)}`);
  });
}
