/** Ids may come in letters of either case and are the same ones: what within compares them as texts must not be got around by that. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type BackendForTest, backendForTest } from '../backend-for-test.js';
import { line, publish, tag } from '../runtime/hand-worker.js';
import { BY_HAND } from '../sweeper/sweeper-bench.js';

let onward: BackendForTest;
beforeAll(async () => {
  onward = await backendForTest(BY_HAND);
});
afterAll(() => onward?.close());

type Started = { results: { runId?: string; refused?: string }[] };

test.each([
  ['after_finishing', 'reentry_running'],
  ['never', 'reentry_never'],
])('a contact that may enter only %s is refused under a workflow id in capitals as well', async (reentry, refused) => {
  const workflowId = await publish(onward, line(tag('a')), { reentry });
  const { body: contact } = await onward.api<{ id: string }>('POST', '/contacts', { email: `${reentry}@example.test` });
  const start = (workflow: string, id: string) => onward.api<Started>('POST', '/runs', { workflowId: workflow, contacts: [{ id }] });

  const first = await start(workflowId.toUpperCase(), contact.id.toUpperCase());
  const second = await start(workflowId, contact.id);
  const third = await start(workflowId.toUpperCase(), contact.id);

  expect(first.body.results).toMatchObject([{ runId: expect.any(String) }]);
  expect(second.body.results).toMatchObject([{ refused }]);
  expect(third.body.results).toMatchObject([{ refused }]);
});

test('a run is found, and may be cancelled, by its id in capitals', async () => {
  const workflowId = await publish(onward, line(tag('a')));
  const started = await onward.api<Started>('POST', '/runs', { workflowId, withoutContact: true });
  const id = started.body.results[0]?.runId ?? '';
  expect((await onward.api<{ id: string }>('GET', `/runs/${id.toUpperCase()}`)).body.id).toBe(id);
  expect((await onward.api('POST', `/runs/${id.toUpperCase()}/cancel`)).status).toBeLessThan(300);
  expect((await onward.api<{ state: string }>('GET', `/runs/${id}`)).body.state).toBe('cancelled');
});
