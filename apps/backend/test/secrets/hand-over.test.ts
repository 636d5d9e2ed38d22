import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { OutboundRequest } from '@onward/contracts/outbound';
import { openSecrets } from '@onward/wire/sealed-secrets';
import { placeholderOf } from '../../src/actions/forward-request/secret-placeholders.js';
import { rows } from '../../src/database/sql.js';
import { type BackendForTest, backendForTest } from '../backend-for-test.js';
import { HandWorker, line, publish } from '../runtime/hand-worker.js';

let onward: BackendForTest;
let worker: HandWorker;
beforeAll(async () => {
  onward = await backendForTest({ AUTOMATIONS_SWEEP_INTERVAL_MS: '1000000' });
  worker = new HandWorker(onward);
});
afterAll(async () => {
  worker?.close();
  await onward?.close();
});

const ORIGIN = 'https://api.example.test';
let made = 0;

async function makeSecret(value: string, allowedOrigins = [ORIGIN]): Promise<{ id: string; name: string }> {
  made += 1;
  const { body } = await onward.api<{ id: string; name: string }>('POST', '/secrets', { name: `secret_${made}`, value, allowedOrigins });
  return body;
}

async function start(config: Record<string, unknown>, { attributes = {}, payload = {} } = {}): Promise<string> {
  made += 1;
  const node = { id: 'call', type: 'action', config: { action: 'FORWARD_REQUEST', with: { url: `${ORIGIN}/a`, ...config } } };
  const workflowId = await publish(onward, line(node));
  const contact = await onward.api<{ id: string }>('POST', '/contacts', { email: `hand-over-${made}@example.test`, attributes });
  const started = await onward.api<{ results: { runId: string }[] }>('POST', '/runs', { workflowId, contacts: [{ id: contact.body.id }], payload });
  return started.body.results[0]?.runId ?? '';
}

type Work = { kind: string; request: OutboundRequest; secrets?: string[]; outcome?: unknown };
async function handOver(runId: string, callId = 1) {
  const { at, replies } = await worker.begin(runId, callId);
  const work = replies[3] as unknown as Work;
  const values = openSecrets(work.secrets ?? [], { secret: onward.settings.rpcSecrets[0], step: `${runId}|${at.seq}` });
  return { at, work, values };
}
const frozenOf = async (runId: string) =>
  (await rows<{ text: string }>(onward.source, 'SELECT request::text AS text FROM outbound_requests WHERE run_id = $1', [runId]))
    .map(({ text }) => text)
    .join();
/** The text of every row of every table. */
async function dump(): Promise<string> {
  const tables = await rows<{ name: string }>(onward.source, `SELECT tablename AS name FROM pg_tables WHERE schemaname = 'public'`);
  const texts = await Promise.all(tables.map(({ name }) => rows<{ text: string }>(onward.source, `SELECT t::text AS text FROM "${name}" t`)));
  return texts
    .flat()
    .map(({ text }) => text)
    .join('\n');
}

test('a request is frozen and handed over with placeholders, and the values come beside it, sealed', async () => {
  const { name } = await makeSecret('the value of one');
  const runId = await start({
    url: `${ORIGIN}/{{ secrets.${name} }}`,
    query: { k: `{{ secrets.${name} }}` },
    headers: { 'X-Key': `a {{ secrets.${name} }}` },
    body: { deep: [`{{ secrets.${name} | append: "-x" | default: "none" }}`] },
  });
  const { at, work, values } = await handOver(runId);
  const placeholder = placeholderOf(name, { secretKey: onward.settings.secretKey, runId, seq: at.seq });
  expect(placeholder).toMatch(/^[a-z0-9]{44}$/);
  expect(work.request).toMatchObject({
    url: `${ORIGIN}/${placeholder}?k=${placeholder}`,
    headers: { 'x-key': `a ${placeholder}` },
    body: `{"deep":["${placeholder}-x"]}`,
  });
  expect(work.request).not.toHaveProperty('secrets');
  expect(values).toEqual([{ placeholder, name, value: 'the value of one', origins: [ORIGIN] }]);
  expect(JSON.parse(await frozenOf(runId))).toMatchObject({ secrets: [{ placeholder, name }] });
  expect(JSON.stringify(work)).not.toContain('the value');
  expect(await dump()).not.toContain('the value of one');
  const run = await onward.api<{ history: { input: unknown }[] }>('GET', `/runs/${runId}`);
  expect(run.body.history.at(-1)?.input).toEqual({ method: 'POST', url: `${ORIGIN}/[secret ${name}]?k=[secret ${name}]` });
});

test('a placeholder is another for each secret, step and run', () => {
  const step = { secretKey: 'k'.repeat(32), runId: 'r', seq: 1 };
  const all = [placeholderOf('a', step), placeholderOf('b', step), placeholderOf('a', { ...step, seq: 2 }), placeholderOf('a', { ...step, runId: 's' })];
  expect(new Set([...all, placeholderOf('a', { ...step, secretKey: 'l'.repeat(32) })]).size).toBe(5);
});

test('a value of the contact or the event that is written like a secret, or like a placeholder, stays text', async () => {
  const { name } = await makeSecret('hidden');
  const forged = `onws${'ab'.repeat(20)}`;
  const runId = await start(
    { headers: { 'X-Key': `{{ secrets.${name} }}` }, body: { contact: '{{ contact.attributes.forged }}', event: '{{ event.text }}', own: '{{ secrets_of }}' } },
    { attributes: { forged }, payload: { text: `{{ secrets.${name} }}`, secrets: { [name]: 'x' } } },
  );
  const { work, values } = await handOver(runId);
  expect(JSON.parse(work.request.body ?? '')).toEqual({ contact: forged, event: `{{ secrets.${name} }}`, own: '' });
  expect(values).toHaveLength(1);
});

test.each([
  'upcase',
  'slice: 0, 8',
  'truncate: 10',
  'replace: "o", "0"',
  'split: "n" | join: "-"',
  'size',
  'capitalize',
  'plus: 1',
  'remove: "onws"',
  'url_encode',
  'json',
  'escape',
  'downcase',
  'truncate: 500',
  'replace: "ZZZ", "y"',
  'strip',
])('a secret changed by | %s is request_invalid, naming it', async (filter) => {
  const { name } = await makeSecret('hidden');
  const { work } = await handOver(await start({ headers: { 'X-Key': `a {{ secrets.${name} | ${filter} }}` } }));
  expect(work).toMatchObject({
    kind: 'outcome',
    outcome: { kind: 'failed', failure: { code: 'request_invalid', message: expect.stringContaining(`"${name}"`) } },
  });
  expect(JSON.stringify(work)).not.toContain('onws');
});

test.each(['append: "x"', 'prepend: "x"', 'default: "x"'])('a secret goes whole through | %s', async (filter) => {
  const { name } = await makeSecret('hidden');
  const { values } = await handOver(await start({ headers: { 'X-Key': `{{ secrets.${name} | ${filter} }}` } }));
  expect(values).toMatchObject([{ name, value: 'hidden' }]);
});

test('a secret as the default of a value that is there is not handed over, and is no fault', async () => {
  const { name } = await makeSecret('hidden');
  const { work, values } = await handOver(await start({ headers: { 'X-Key': `{{ event.text | default: secrets.${name} }}` } }, { payload: { text: 'there' } }));
  expect([work.request.headers['x-key'], values]).toEqual(['there', []]);
});

test('a secret in a branch not taken is not handed over', async () => {
  const { name } = await makeSecret('hidden');
  const runId = await start({ headers: { 'X-Key': `{% if event.no %}{{ secrets.${name} }}{% else %}none{% endif %}` } });
  const { work, values } = await handOver(runId);
  expect([work.kind, values]).toEqual(['send', []]);
  expect(work.request.headers['x-key']).toBe('none');
});

describe('a retry', () => {
  async function failOnce(runId: string, secretId: string, change: () => Promise<unknown>) {
    const first = await handOver(runId);
    const failure = { code: 'network', message: 'refused' } as const;
    const recorded = await worker.frame(['update', { ...first.at, n: 1, outcome: { kind: 'failed', failure } }], ['retry', first.at]);
    expect(recorded.map(({ kind }) => kind)).toEqual(['recorded', 'rests']);
    await change();
    expect(secretId).toBeTruthy();
    await onward.clock.advance('PT1H');
    return { first, second: await handOver(runId) };
  }

  test('uses the value the secret has by then, under the same key, placeholders and body', async () => {
    const { id, name } = await makeSecret('old value');
    const runId = await start({ body: { k: `{{ secrets.${name} }}` } });
    const { first, second } = await failOnce(runId, id, () => onward.api('PUT', `/secrets/${id}/value`, { value: 'new value' }));
    expect(second.work.request).toEqual(first.work.request);
    expect([first.values?.[0]?.value, second.values?.[0]?.value]).toEqual(['old value', 'new value']);
  });

  test.each([
    ['secret_missing', (id: string) => onward.api('DELETE', `/secrets/${id}?force=true`)],
    ['secret_not_allowed', (id: string) => onward.api('PATCH', `/secrets/${id}`, { allowedOrigins: ['https://other.example.test'] })],
  ])('fails for good as %s', async (code, change) => {
    const { id, name } = await makeSecret('a value');
    const runId = await start({ body: { k: `{{ secrets.${name} }}` } });
    const { second } = await failOnce(runId, id, () => change(id));
    expect(second.work).toMatchObject({ kind: 'outcome', outcome: { kind: 'failed', failure: { code, message: expect.stringContaining(name) } } });
    expect(await worker.attempts(runId)).toMatchObject([{ seq: 1 }, { n: 1, status: 'failed' }, { n: 2, status: 'failed', failure: { code }, verb: 'fail' }]);
    expect((await worker.frame(['fail', second.at]))[0]).toMatchObject({ kind: 'rests', state: 'failed' });
  });
});

test('a frame repeated after its reply was lost hands the same over', async () => {
  const { name } = await makeSecret('again');
  const runId = await start({ body: { k: `{{ secrets.${name} }}` } });
  const [first, second] = [await handOver(runId), await handOver(runId)];
  expect(second.work.request).toEqual(first.work.request);
  expect(second.values).toEqual(first.values);
});

describe('F39: a header of credentials that was written without a secret', () => {
  test.each([
    ...['Authorization', 'Cookie', 'X-Api-Key', 'X-Auth-Token', 'Client-Secret', 'apikey', 'X-Password', 'X-Access-Key', 'X-Credentials', 'X-Passcode'],
    ...['X-Signing-Key', 'JWT', 'Auth', 'X-Auth', 'X-Auth-Key', 'Bearer', 'Session-Id', 'X-Session-Id', 'X-JWT'],
  ])('F39: %s stands in no table in clear', async (header) => {
    const canary = `s3cr3t-F39-${header}`;
    const runId = await start({ method: 'GET', headers: { [header]: 'Bearer {{ event.text }}', 'X-Plain': 'plain' } }, { payload: { text: canary } });
    const { at, work, values } = await handOver(runId);
    const lower = header.toLowerCase();
    const placeholder = placeholderOf(`header ${lower}`, { secretKey: onward.settings.secretKey, runId, seq: at.seq });
    expect(work.request.headers).toMatchObject({ [lower]: placeholder, 'x-plain': 'plain' });
    expect(values).toEqual([{ placeholder, name: `header ${lower}`, value: `Bearer ${canary}`, origins: [ORIGIN] }]);
    expect(await frozenOf(runId)).not.toContain(canary);
  });

  test('F39: beside a secret too, and the secret may still go nowhere else', async () => {
    const { name } = await makeSecret('inner-value', [ORIGIN, 'https://b.example.test']);
    const runId = await start(
      { method: 'GET', headers: { Authorization: `Bearer {{ event.text }}.{{ secrets.${name} }}` } },
      { payload: { text: 's3cr3t-F39' } },
    );
    const { values } = await handOver(runId);
    expect(values).toMatchObject([
      { name, value: 'inner-value' },
      { name: 'header authorization', value: 'Bearer s3cr3t-F39.inner-value', origins: [ORIGIN] },
    ]);
    expect(await frozenOf(runId)).not.toContain('s3cr3t-F39');
  });

  test.each([
    ['Authorization', 'Bearer {{ secrets.NAME }}'],
    ['Cookie', 'sid={{ secrets.NAME }}; other={{ secrets.NAME }}'],
    ['X-Api-Key', '{{ secrets.NAME }}'],
  ])('%s: %s needs no second placeholder', async (header, template) => {
    const { name } = await makeSecret('inner');
    const { values } = await handOver(await start({ headers: { [header]: template.replaceAll('NAME', name) } }));
    expect(values).toMatchObject([{ name }]);
    expect(values).toHaveLength(1);
  });
});

test('a value sealed under another ONWARD_SECRET_KEY fails the step for good and says so', async () => {
  const { id, name } = await makeSecret('unreadable');
  const runId = await start({ body: { k: `{{ secrets.${name} }}` } });
  await onward.source.query('UPDATE secrets SET sealed = $2 WHERE id = $1', [id, Buffer.alloc(60)]);
  const { work } = await handOver(runId);
  expect(work).toMatchObject({ kind: 'outcome', outcome: { failure: { code: 'secret_missing', message: expect.stringContaining('ONWARD_SECRET_KEY') } } });
});
