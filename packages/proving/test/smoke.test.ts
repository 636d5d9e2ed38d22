import { afterAll, beforeAll, expect, test } from 'vitest';
import { install, type Installation } from '../src/installation.js';
import { forward, line, mailTo, makeTemplate, onEvent, publish, tag, wait } from '../src/journeys.js';

let onward: Installation;
beforeAll(async () => {
  onward = await install({ postgresUrl: process.env['ONWARD_TEST_POSTGRES_URL'] ?? '', valkeyUrl: process.env['ONWARD_TEST_VALKEY_URL'] ?? '' });
});
afterAll(() => onward?.close());

test('an event becomes a run that tags, mails, waits, calls and ends', async () => {
  const { api, mail, target } = onward;
  await makeTemplate(api, 'hello');
  await publish(
    api,
    'smoke',
    line(onEvent('order.paid'), tag('mark', 'buyer'), mailTo('greet', 'hello'), wait('rest', '2d'), forward('call', `${target.url}/orders`)),
  );
  const accepted = await api.must('POST', '/events', { id: 'e1', type: 'order.paid', contact: { email: 'ann@example.test', attributes: { name: 'Ann' } }, payload: { total: 7 } });
  const [run] = accepted['runs'] as { runId: string }[];
  const state = async () => (await api.must('GET', `/runs/${run?.runId}`))['state'];
  await onward.until('the run waits for two days', async () => (await state()) === 'waiting' && mail.messages().length === 1 && (await api.must('GET', `/runs/${run?.runId}`))['node'] === 'rest');
  await api.must('POST', '/test/clock', { advance: '2d' });
  await onward.until('the run ends', async () => (await state()) === 'succeeded');
  const shown = await api.must('GET', `/runs/${run?.runId}`);
  console.log(JSON.stringify(shown, null, 1));
  expect(target.requests()).toHaveLength(1);
});
