import { afterAll, beforeAll, expect, test } from 'vitest';
import { type BackendForTest, backendForTest } from '../backend-for-test.js';
import { HandWorker, line, publish, startRun } from './hand-worker.js';

/** An action that would look at nothing is given nothing to look at; one that would is given all of it. */
let onward: BackendForTest;
let worker: HandWorker;
beforeAll(async () => {
  onward = await backendForTest({ AUTOMATIONS_SWEEP_INTERVAL_MS: '100000', AUTOMATIONS_LEASE_MS: '60000' });
  worker = new HandWorker(onward);
});
afterAll(async () => {
  worker?.close();
  await onward?.close();
});

async function bodySent(config: Record<string, unknown>): Promise<{ body: unknown; email: string }> {
  const call = { id: 'call', type: 'action', config: { action: 'FORWARD_REQUEST', with: { url: 'http://127.0.0.1:9/', ...config } } };
  const { runId, contactId } = await startRun(onward, await publish(onward, line(call)));
  const { body } = await onward.api<{ email: string }>('GET', `/contacts/${contactId}`);
  const { replies } = await worker.begin(runId);
  const { request } = replies.at(-1) as unknown as { request: { body: string } };
  return { body: JSON.parse(request.body), email: body.email };
}

test('a request without a body of its own tells whom the run is about', async () => {
  const { body, email } = await bodySent({});
  expect(body).toMatchObject({ contact: { email, attributes: { name: expect.stringMatching(/^Person/) } }, run: { seq: 2 } });
});

test.each([
  ['body', { body: { to: '{{ contact.email }}' } }],
  ['address', { url: 'http://127.0.0.1:9/{{ contact.email }}', body: {} }],
])('one with a text to fill in its %s has it filled', async (where, config) => {
  const { body, email } = await bodySent(config);
  expect(body).toEqual(where === 'body' ? { to: email } : {});
});

test('one whose body is written out is sent as it is written', async () => {
  expect((await bodySent({ body: { hello: 'world' } })).body).toEqual({ hello: 'world' });
});
