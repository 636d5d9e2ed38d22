import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { rows } from '../../src/database/sql.js';
import { openValue } from '../../src/secrets/seal-value.js';
import { type BackendForTest, backendForTest } from '../backend-for-test.js';
import { line, publish } from '../runtime/hand-worker.js';

let onward: BackendForTest;
beforeAll(async () => {
  onward = await backendForTest({ AUTOMATIONS_SWEEP_INTERVAL_MS: '1000000' });
});
afterAll(() => onward?.close());

type Shown = { id: string; name: string; allowedOrigins: string[]; updatedAt: string; usedBy: { id: string; status: string }[] };
type Refusal = { detail: string; errors: { path: string; message: string; node?: string }[] };

const VALUE = 'v4lue-CANARY-of-a-secret';
const ORIGIN = 'https://api.example.test';
let made = 0;
async function make(changes: Record<string, unknown> = {}): Promise<Shown> {
  made += 1;
  const { status, body } = await onward.api<Shown>('POST', '/secrets', { name: `secret_${made}`, value: VALUE, allowedOrigins: [ORIGIN], ...changes });
  expect(status).toBe(201);
  return body;
}
const call = (config: Record<string, unknown>) =>
  line({ id: 'call', type: 'action', config: { action: 'FORWARD_REQUEST', with: { url: `${ORIGIN}/a`, ...config } } });
async function tryToPublish(config: Record<string, unknown>) {
  const workflow = await onward.api<{ id: string }>('POST', '/workflows', { name: `w ${Math.random()}`, graph: call(config) });
  return onward.api<Refusal>('POST', `/workflows/${workflow.body.id}/publish`);
}

test('a secret is told of without its value, wherever it is asked for', async () => {
  const secret = await make({ allowedOrigins: ['https://API.example.test:443/', 'http://127.0.0.1:8080', 'https://api.example.test'] });
  expect(secret).toEqual({
    id: secret.id,
    name: secret.name,
    allowedOrigins: [ORIGIN, 'http://127.0.0.1:8080'],
    createdAt: expect.any(String),
    updatedAt: expect.any(String),
    usedBy: [],
  });
  const answers = [
    await onward.api('GET', `/secrets/${secret.id}`),
    await onward.api('GET', '/secrets'),
    await onward.api('PUT', `/secrets/${secret.id}/value`, { value: `${VALUE}-2` }),
    await onward.api('PATCH', `/secrets/${secret.id}`, { allowedOrigins: ['https://other.example.test'] }),
    await onward.api('POST', '/secrets', { name: secret.name, value: VALUE, allowedOrigins: [ORIGIN] }),
  ];
  expect(answers.map(({ status }) => status)).toEqual([200, 200, 200, 200, 409]);
  expect(JSON.stringify(answers)).not.toContain('CANARY');
  expect(answers[3]?.body).toMatchObject({ allowedOrigins: ['https://other.example.test'] });
});

test('the database holds a value only sealed, and bound to its own row', async () => {
  const [one, two] = [await make({ value: 'short' }), await make({ value: 'short' })];
  const sealed = await rows<{ id: string; sealed: Buffer }>(onward.source, 'SELECT id, sealed FROM secrets WHERE id = ANY ($1) ORDER BY id', [
    [one.id, two.id],
  ]);
  const [first, second] = sealed;
  if (!first || !second) throw new Error('two rows');
  const { secretKey } = onward.settings;
  expect(openValue(first.sealed, first.id, secretKey)).toBe('short');
  expect(openValue(first.sealed, second.id, secretKey)).toBeNull();
  expect(openValue(first.sealed, first.id, `${secretKey}x`)).toBeNull();
  expect(first.sealed.includes('short')).toBe(false);
  expect(first.sealed.equals(second.sealed)).toBe(false);
  for (let at = 0; at < first.sealed.length; at += 1) {
    const changed = Buffer.from(first.sealed);
    changed[at] = (changed[at] ?? 0) ^ 1;
    expect(openValue(changed, first.id, secretKey), `byte ${at}`).toBeNull();
  }
});

test('a repeat by Idempotency-Key is answered, and neither the answer nor the hash of the request gives the value away', async () => {
  const body = { name: 'repeated', value: '1234', allowedOrigins: [ORIGIN] };
  const sent = { headers: { 'idempotency-key': 'make-once' } };
  const first = await onward.api<Shown>('POST', '/secrets', body, sent);
  const second = await onward.api<Shown>('POST', '/secrets', body, sent);
  expect([first.status, second.status]).toEqual([201, 201]);
  expect(second.body).toEqual(first.body);
  expect((await onward.api('POST', '/secrets', { ...body, value: '1235' }, sent)).status).toBe(409);
  const [kept] = await rows<{ hash: Buffer; body: string }>(
    onward.source,
    `SELECT request_hash AS hash, body::text FROM idempotency_keys WHERE key = 'make-once'`,
  );
  expect(kept?.body).not.toContain('1234');
  const { createHash } = await import('node:crypto');
  const guess = createHash('sha256')
    .update(`POST\n/api/v1/secrets\n${JSON.stringify(body)}`)
    .digest();
  expect(kept?.hash.equals(guess)).toBe(false);
});

describe('bad input is refused by its field, without the value', () => {
  const good = { name: 'good_name', value: VALUE, allowedOrigins: [ORIGIN] };
  test.each([
    ['name', { name: 'Upper' }],
    ['name', { name: '1st' }],
    ['name', { name: 'with-dash' }],
    ['name', { name: 'a'.repeat(64) }],
    ['name', { name: undefined }],
    ['value', { value: '' }],
    ['value', { value: `${VALUE}${'é'.repeat(4_096)}` }],
    ['value', { value: { CANARY: 'CANARY' } }],
    ['value', { value: `CANARY\ud800` }],
    ['value', { value: undefined }],
    ['allowedOrigins', { allowedOrigins: [] }],
    ['allowedOrigins', { allowedOrigins: Array.from({ length: 51 }, (_, index) => `https://h${index}.example.test`) }],
    ['allowedOrigins', { allowedOrigins: undefined }],
    ['allowedOrigins.1', { allowedOrigins: [ORIGIN, 'api.example.test'] }],
    ...[
      'ftp://a.example.test',
      'https://a.example.test/path',
      'https://u:CANARY@a.example.test',
      'https://a.example.test/?x',
      'https://a.example.test/?',
      'https://a.example.test/#',
      'null',
      '*',
      'https://',
    ].map((origin) => ['allowedOrigins.0', { allowedOrigins: [origin] }] as [string, Record<string, unknown>]),
    ['more', { more: 1 }],
  ])('%s: %j', async (path, changes) => {
    const { status, body } = await onward.api<Refusal>('POST', '/secrets', { ...good, ...changes });
    expect(status).toBe(400);
    expect(body.errors.map((error) => error.path)).toContain(path);
    expect(JSON.stringify(body)).not.toContain('CANARY');
  });

  test('a text that is not JSON is refused without it', async () => {
    const answer = await onward.api('POST', '/secrets', `{"value": "${VALUE}", }`, { headers: { 'content-type': 'application/json' } });
    expect(answer.status).toBe(400);
    expect(JSON.stringify(answer.body)).not.toContain('CANARY');
  });

  test('the largest value is taken', async () => {
    expect((await make({ value: 'x'.repeat(8_192), name: 'a'.repeat(63) })).id).toBeTruthy();
  });

  test('what does not exist is a 404', async () => {
    const id = '0198c0de-0000-7000-8000-000000000000';
    const answers = await Promise.all([
      onward.api('GET', `/secrets/${id}`),
      onward.api('PUT', `/secrets/${id}/value`, { value: 'x' }),
      onward.api('PATCH', `/secrets/${id}`, { allowedOrigins: [ORIGIN] }),
      onward.api('DELETE', `/secrets/${id}`),
    ]);
    expect(answers.map(({ status }) => status)).toEqual([404, 404, 404, 404]);
  });
});

test('secrets are listed newest first, a page at a time', async () => {
  const two = [await make(), await make()];
  const first = await onward.api<{ items: Shown[]; nextCursor: string }>('GET', '/secrets?limit=1');
  const second = await onward.api<{ items: Shown[] }>('GET', `/secrets?limit=1&cursor=${first.body.nextCursor}`);
  expect([...first.body.items, ...second.body.items].map(({ id }) => id)).toEqual(two.map(({ id }) => id).reverse());
});

describe('publishing', () => {
  test.each([
    ['config.with.url', { url: `${ORIGIN}/{{ secrets.NAME }}` }],
    ['config.with.headers.X-Key', { headers: { 'X-Key': 'Bearer {{ secrets.NAME }}' } }],
    ['config.with.query.a.1', { query: { a: ['x', '{{ secrets.NAME }}'] } }],
    ['config.with.query.0.value', { query: [{ name: 'a', value: '{{ secrets["NAME"] }}' }] }],
    ['config.with.body.deep.0', { body: { deep: ['{% if true %}{{ secrets.NAME }}{% endif %}'] } }],
  ])('a secret in %s must exist and may go to the written origin', async (path, template) => {
    const named = (name: string) => JSON.parse(JSON.stringify(template).replaceAll('NAME', name)) as Record<string, unknown>;
    const elsewhere = await make({ allowedOrigins: ['https://api.example.test:8443', 'http://api.example.test'] });
    const right = await make();
    const missing = await tryToPublish(named('nothing_such'));
    expect(missing).toMatchObject({
      status: 422,
      body: { errors: [{ node: 'call', path: `graph.nodes.1.${path}`, message: expect.stringMatching(/nothing_such/) }] },
    });
    const forbidden = await tryToPublish(named(elsewhere.name));
    expect(forbidden).toMatchObject({
      status: 422,
      body: { errors: [{ node: 'call', path: `graph.nodes.1.${path}`, message: expect.stringMatching(/may not go/) }] },
    });
    expect((await tryToPublish(named(right.name))).status).toBeLessThan(300);
    expect((await onward.api<Shown>('GET', `/secrets/${right.id}`)).body.usedBy).toMatchObject([{ status: 'active' }]);
  });

  test.each([
    '{{ secrets }}',
    '{{ secrets[event.which] }}',
    '{% for s in secrets %}{{ s }}{% endfor %}',
    '{{ secrets.a.b }}',
    '{% assign s = secrets %}{{ s.a }}',
  ])('%s is refused: a secret is named plainly', async (text) => {
    expect(await tryToPublish({ headers: { 'X-Key': text } })).toMatchObject({
      status: 422,
      body: { errors: [{ node: 'call', path: 'graph.nodes.1.config.with.headers.X-Key', message: expect.stringMatching(/plainly/) }] },
    });
  });

  test('a secret in the host is refused as any value is', async () => {
    const { name } = await make();
    expect(await tryToPublish({ url: `https://{{ secrets.${name} }}.example.test/` })).toMatchObject({
      status: 422,
      body: { errors: [{ path: 'graph.nodes.1.config.with.url' }] },
    });
  });
});

test('a secret in use is deleted only by force, and the refusal names the workflows', async () => {
  const { id, name } = await make();
  const workflow = await publish(onward, call({ headers: { 'X-Key': `{{ secrets.${name} }}` } }));
  expect((await onward.api<Shown>('GET', `/secrets/${id}`)).body.usedBy).toEqual([{ id: workflow, name: expect.any(String), status: 'active' }]);
  const refused = await onward.api<Refusal>('DELETE', `/secrets/${id}`);
  expect(refused).toMatchObject({ status: 409, body: { detail: expect.stringContaining(workflow) } });
  expect(await onward.api('DELETE', `/secrets/${id}?force=maybe`)).toMatchObject({ status: 400 });
  expect((await onward.api('DELETE', `/secrets/${id}?force=true`)).status).toBe(204);
  expect((await onward.api('GET', `/secrets/${id}`)).status).toBe(404);
  const free = await make();
  expect((await onward.api('DELETE', `/secrets/${free.id}`)).status).toBe(204);
});

test('a workflow that is archived is no user of a secret', async () => {
  const { id, name } = await make();
  const workflow = await publish(onward, call({ headers: { 'X-Key': `{{ secrets.${name} }}` } }));
  expect((await onward.api('DELETE', `/secrets/${id}`)).status).toBe(409);
  await onward.api('POST', `/workflows/${workflow}/pause`);
  expect((await onward.api('POST', `/workflows/${workflow}/archive`)).status).toBe(200);
  expect((await onward.api<Shown>('GET', `/secrets/${id}`)).body.usedBy).toEqual([]);
  expect((await onward.api('DELETE', `/secrets/${id}`)).status).toBe(204);
});

test('a secret deleted while a workflow with it is published is refused to one of the two', async () => {
  for (let round = 0; round < 10; round += 1) {
    const { id, name } = await make();
    const workflow = await onward.api<{ id: string }>('POST', '/workflows', {
      name: `race ${round}`,
      graph: call({ headers: { 'X-Key': `{{ secrets.${name} }}` } }),
    });
    const [published, deleted] = await Promise.all([onward.api('POST', `/workflows/${workflow.body.id}/publish`), onward.api('DELETE', `/secrets/${id}`)]);
    expect([published.status < 300, deleted.status < 300].filter(Boolean), `${published.status} ${deleted.status}`).toHaveLength(1);
  }
});
