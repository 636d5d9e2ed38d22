import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type IncomingHttpHeaders, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { OutboundRequest, SecretValue } from '@onward/contracts/outbound';
import { type Outcome, outcomeSchema } from '@onward/contracts/outcome';
import { parseAllowList } from '@onward/egress/allow-list';
import { closeEgress } from '@onward/egress/send-request';
import { FailPoints } from '@onward/wire/fail-points';
import { sealSecrets } from '@onward/wire/sealed-secrets';
import { afterAll, describe, expect, onTestFinished, test, vi } from 'vitest';
import type { Step } from '../src/conversation.js';
import { createPerform } from '../src/perform.js';
import { MAX_TEXT_BYTES, performRequest } from '../src/perform-request.js';
import { SECRET } from './backend.js';
import { startTargets } from './parts.js';

afterAll(closeEgress);

type Seen = { url: string; headers: IncomingHttpHeaders; body: string };

async function open(answer: (seen: Seen, response: ServerResponse) => void) {
  const seen: Seen[] = [];
  const server = createServer((request, response) => {
    let body = '';
    request.on('data', (chunk: Buffer) => (body += chunk.toString()));
    request.on('end', () => {
      const one = { url: request.url ?? '', headers: request.headers, body };
      seen.push(one);
      answer(one, response);
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  const { port } = server.address() as AddressInfo;
  const list = parseAllowList(`127.0.0.1:${port}`);
  if (!list.ok) throw new Error(list.errors.join());
  return { seen, origin: `http://127.0.0.1:${port}`, allow: list.allow };
}
type Target = Awaited<ReturnType<typeof open>>;

const CANARIES = Array.from({ length: 20 }, (_, index) => `canary${index}-${randomBytes(6).toString('base64')}/+"&`);
const secretsFor = ({ origin }: Target): SecretValue[] =>
  CANARIES.map((value, index) => ({ placeholder: `onws${index.toString(16).padStart(40, 'f')}`, name: `s${index}`, value, origins: [origin] }));

const FORMS: ((value: string) => string)[] = [
  (value) => value,
  encodeURIComponent,
  (value) => new URLSearchParams({ v: value }).toString().slice(2),
  (value) => JSON.stringify(value).slice(1, -1),
  (value) => Buffer.from(value).toString('base64'),
  (value) => Buffer.from(value).toString('base64url'),
  (value) => Buffer.from(value).toString('hex'),
];
/** How often a value, or most of it, stands in what was recorded. */
function hits(recorded: unknown): string[] {
  const texts = [JSON.stringify(recorded), JSON.stringify(JSON.stringify(recorded))];
  return CANARIES.flatMap((value) => [`${value.split('-')[0]}-`, ...FORMS.map((form) => form(value))]).filter((form) =>
    texts.some((text) => text.includes(form)),
  );
}

const requestOf = ({ origin }: Target, secrets: readonly SecretValue[], changes: Partial<OutboundRequest> = {}): OutboundRequest => ({
  method: 'POST',
  url: `${origin}/hook?${secrets.map(({ placeholder }, index) => `k${index}=${placeholder}`).join('&')}`,
  headers: { 'content-type': 'application/json', authorization: `Bearer ${secrets[0]?.placeholder}` },
  body: JSON.stringify(secrets.map(({ placeholder }) => placeholder)),
  timeoutMs: 10_000,
  maxResponseBytes: 1_000_000,
  followRedirects: false,
  ...changes,
});

async function perform(target: Target, changes: Partial<OutboundRequest> = {}): Promise<Outcome> {
  const secrets = secretsFor(target);
  const outcome = await performRequest(requestOf(target, secrets, changes), { allow: target.allow, now: () => new Date(), secrets });
  return outcomeSchema.parse(outcome);
}

/** Everything a target knows of a request, in every encoding, in whatever kind of body. */
const everyForm = () => CANARIES.flatMap((value) => FORMS.map((form) => form(value)));
const user = (value: string) => `Basic ${Buffer.from(`user:${value}`).toString('base64')}`;

describe('F39: a target that echoes what it was sent', () => {
  test('F39: the target is given the values', async () => {
    const target = await open((_, response) => response.end());
    await perform(target);
    const [seen] = target.seen;
    expect(JSON.parse(seen?.body ?? '')).toEqual(CANARIES);
    expect([...new URL(seen?.url ?? '', target.origin).searchParams.values()]).toEqual(CANARIES);
    expect(seen?.headers.authorization).toBe(`Bearer ${CANARIES[0]}`);
  });

  test.each([
    ['JSON', 'application/json', (seen: Seen) => JSON.stringify({ ...seen, forms: everyForm(), basic: CANARIES.map(user), [CANARIES[1] ?? '']: 1 })],
    ['JSON that is none', 'application/json', (seen: Seen) => `{"broken": ${JSON.stringify({ ...seen, forms: everyForm() })}`],
    ['text', 'text/plain', (seen: Seen) => `${JSON.stringify(seen)} ${everyForm().join('\n')}`],
    ['HTML', 'text/html', (seen: Seen) => `<p>${seen.body.replaceAll('&', '&amp;').replaceAll('"', '&quot;')}</p>`],
    ['UTF-16', 'text/plain; charset=utf-16le', null],
  ] as const)('F39: %s of 200, 401, 500 and 302 is recorded with every value masked', async (_, type, write) => {
    for (const status of [200, 401, 500, 302]) {
      const target = await open((seen, response) => {
        const body = write === null ? Buffer.from(JSON.stringify(seen), 'utf16le') : write(seen);
        const location = `/again?k=${encodeURIComponent(CANARIES[2] ?? '')}`;
        response.writeHead(status, { 'content-type': type, location, 'x-request-id': CANARIES[3] }).end(body);
      });
      const outcome = await perform(target);
      expect(hits(outcome), `${status}`).toEqual([]);
      expect(JSON.stringify(outcome)).toContain('[secret s');
      expect(outcome.kind).toBe(status === 200 ? 'done' : 'failed');
    }
  });

  test('F39: a value that is cut in two by the length kept does not leave its first half', async () => {
    const value = CANARIES[4] ?? '';
    for (let left = 1; left < value.length; left += 1) {
      const failing = await open((_, response) => response.writeHead(401).end(`${'x'.repeat(500 - left)}${value}`));
      expect(hits(await perform(failing))).toEqual([]);
    }
    const target = await open((_, response) =>
      response.writeHead(200, { 'content-type': 'text/plain' }).end(`${'x'.repeat(MAX_TEXT_BYTES - 8)}${value}${'y'.repeat(100)}`),
    );
    const outcome = await perform(target);
    expect(outcome).toMatchObject({ kind: 'done', output: { bodyKind: 'text' }, warnings: [expect.stringContaining('are kept')] });
    expect(hits(outcome)).toEqual([]);
    expect(outcome).toMatchObject({ output: { body: expect.stringMatching(/^x+(?:\[secret)?/) } });
    if (outcome.kind === 'done') expect(Buffer.byteLength(String((outcome.output as { body: string }).body))).toBe(MAX_TEXT_BYTES);
  });

  test('F39: JSON too deep to be kept as JSON is kept as text, masked', async () => {
    const target = await open((seen, response) =>
      response.writeHead(200, { 'content-type': 'application/json' }).end(`${'['.repeat(50_000)}${JSON.stringify(seen.body)}${']'.repeat(50_000)}`),
    );
    const outcome = await perform(target);
    expect(outcome).toMatchObject({ kind: 'done', output: { bodyKind: 'text' } });
    expect(hits(outcome)).toEqual([]);
  });

  test('F39: faults on the way name no value', async () => {
    const closed = await open(() => undefined);
    const away = { ...closed, origin: 'http://127.0.0.1:1', allow: closed.allow };
    const list = parseAllowList('127.0.0.1:1');
    if (!list.ok) throw new Error(list.errors.join());
    const refused = await perform({ ...away, allow: list.allow });
    expect(refused).toMatchObject({ kind: 'failed', failure: { code: 'network' } });
    const tls = await perform({ ...closed, origin: closed.origin.replace('http:', 'https:') });
    expect(tls).toMatchObject({ kind: 'failed', failure: { code: 'network' } });
    const late = await perform(closed, { timeoutMs: 200 });
    expect(late).toMatchObject({ kind: 'failed', failure: { code: 'timeout' } });
    expect(hits([refused, tls, late])).toEqual([]);
  });
});

test('a secret that may not go there fails for good and is not sent', async () => {
  const target = await open((_, response) => response.end());
  const secrets = secretsFor(target).map((one) => ({ ...one, origins: ['https://api.example.test'] }));
  const outcome = await performRequest(requestOf(target, secrets), { allow: target.allow, now: () => new Date(), secrets });
  expect(outcome).toMatchObject({ kind: 'failed', failure: { code: 'secret_not_allowed', detail: { mayHaveBeenSent: false } } });
  expect(target.seen).toEqual([]);
});

describe('an answered request stays answered', () => {
  const unnamed = (target: Target): SecretValue[] =>
    secretsFor(target).map((one) => ({
      ...one,
      get name(): string {
        throw new Error('no name');
      },
    }));

  test.each([
    [200, { kind: 'done', output: { status: 200, body: '[secret …]' } }],
    [404, { kind: 'failed', failure: { code: 'http_permanent', detail: { status: 404, body: '[secret …]' } } }],
    [503, { kind: 'failed', failure: { code: 'http_retryable', detail: { status: 503, body: '[secret …]' } } }],
  ])('%i, when its values cannot be masked', async (status, expected) => {
    const target = await open((seen, response) => response.writeHead(status).end(seen.body));
    const secrets = unnamed(target);
    const outcome = await performRequest(requestOf(target, secrets), { allow: target.allow, now: () => new Date(), secrets });
    expect(outcomeSchema.parse(outcome)).toMatchObject(expected);
    expect(hits(outcome)).toEqual([]);
  });

  test('503, when there is a fault in reading the answer', async () => {
    const headers = { 'retry-after': 'Wed, 21 Oct 2026 07:28:00 GMT' };
    const target = await open((seen, response) => response.writeHead(503, headers).end(seen.body));
    const secrets = secretsFor(target);
    const now = () => {
      throw new Error('no clock');
    };
    const outcome = await performRequest(requestOf(target, secrets), { allow: target.allow, now, secrets });
    const detail = { status: 503, body: '[secret …]' };
    expect(outcome).toEqual({ kind: 'failed', failure: { code: 'http_retryable', message: 'The target answered 503', detail } });
  });

  test('200, when there is a fault in reading the body', async () => {
    const target = await open((seen, response) => response.writeHead(200, { 'content-type': 'text/plain' }).end(seen.body));
    const secrets = secretsFor(target);
    const broken = vi.spyOn(TextDecoder.prototype, 'decode').mockImplementation(() => {
      throw new RangeError('no memory');
    });
    onTestFinished(() => broken.mockRestore());
    const outcome = await performRequest(requestOf(target, secrets), { allow: target.allow, now: () => new Date(), secrets });
    const output = { status: 200, headers: {}, body: null, bodyKind: 'empty', bytes: Buffer.byteLength(JSON.stringify(CANARIES)) };
    expect(outcome).toEqual({ kind: 'done', output, warnings: ['The body could not be shown'] });
  });
});

describe('secrets that come sealed with the step', () => {
  const RUN = '0198c0de-0000-7000-8000-000000000000';
  async function performSealed(target: Target, { secret = SECRET, step = `${RUN}|4` } = {}): Promise<Outcome> {
    const values = secretsFor(target);
    const send = createPerform({
      allow: target.allow,
      cut: new AbortController().signal,
      targets: startTargets(),
      failPoints: new FailPoints(),
      secret: SECRET,
    });
    const lease = { isConfirmed: () => true, lost: new AbortController().signal } as Step['lease'];
    const work = {
      kind: 'send',
      request: requestOf(target, values),
      target: { origin: target.origin, ratePerSecond: null, maxConcurrent: null, breakerNo: 0 },
      secrets: sealSecrets(values, { secrets: [secret], step }),
    } as Step['work'];
    return send({ runId: RUN, seq: 4, lease, work } as Step, new AbortController().signal);
  }

  test('are opened and put in', async () => {
    const target = await open((_, response) => response.end());
    expect(await performSealed(target)).toMatchObject({ kind: 'done' });
    expect(target.seen[0]?.headers.authorization).toBe(`Bearer ${CANARIES[0]}`);
  });

  test.each([
    ['under another shared secret', { secret: 'another secret of more than 32 characters' }],
    ['for another step', { step: `${RUN}|5` }],
  ])('%s: nothing is sent, nothing is spent, and it is tried again later', async (_, sealed) => {
    const target = await open((_seen, response) => response.end());
    expect(await performSealed(target, sealed)).toEqual({
      kind: 'not_sent',
      why: 'the secrets of the request cannot be opened by this worker',
      blocked: { origin: target.origin, by: 'held', inMs: 30_000, breakerNo: 0 },
    });
    expect(target.seen).toEqual([]);
  });
});
