import { once } from 'node:events';
import { createServer, request as httpRequest, type IncomingHttpHeaders } from 'node:http';
import type { AddressInfo } from 'node:net';
import { describe, expect, it, test } from 'vitest';
import type { Json } from '@onward/contracts/json';
import { outboundRequestSchema, type OutboundRequest } from '@onward/contracts/outbound';
import { buildRequest, MAX_BODY_BYTES } from '../../src/actions/forward-request/build-request.js';
import { forwardRequest, idempotencyKey } from '../../src/actions/forward-request/forward-request.action.js';
import { forwardRequestConfigSchema } from '../../src/actions/forward-request/forward-request.config.js';
import type { Step } from '../../src/actions/action.js';
import type { Scope } from '../../src/runtime/scope.js';
import { scopeForTest } from './scope-for-test.js';

const KEY = 'the-key';

function build(config: Record<string, unknown>, scope: Partial<Scope> = {}) {
  return buildRequest(forwardRequestConfigSchema.parse(config), scopeForTest(scope), KEY);
}

function built(config: Record<string, unknown>, scope: Partial<Scope> = {}): OutboundRequest {
  const answer = build(config, scope);
  if (!answer.ok) throw new Error(answer.reason);
  return outboundRequestSchema.parse(answer.request);
}

function reasonOf(config: Record<string, unknown>, scope: Partial<Scope> = {}): string {
  const answer = build(config, scope);
  return answer.ok ? `sent: ${answer.request.url}` : answer.reason;
}

/** The paths of the fields that a configuration is refused for. */
function refusedFields(config: Record<string, unknown>): string[] {
  const read = forwardRequestConfigSchema.safeParse(config);
  return read.success ? [] : read.error.issues.map((issue) => issue.path.join('.'));
}

/** What a real server on loopback makes of the request. */
async function receive(make: (origin: string) => OutboundRequest): Promise<{ url: string; headers: IncomingHttpHeaders; body: string }> {
  const server = createServer();
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  try {
    const { method, url, headers, body } = make(`http://127.0.0.1:${(server.address() as AddressInfo).port}`);
    const arrival = once(server, 'request');
    const sending = httpRequest(url, { method, headers });
    const answered = once(sending, 'response');
    sending.end(body ?? undefined);
    const [request, response] = await arrival;
    let text = '';
    for await (const chunk of request) text += chunk;
    response.end();
    const [answer] = await answered;
    answer.resume();
    return { url: request.url, headers: request.headers, body: text };
  } finally {
    server.closeAllConnections();
    server.close();
  }
}

describe('F42: the address of the request', () => {
  const query = { q: 'a+b c&d=é/%2B', list: ['x', 'y'], empty: '', none: null };

  it('F42: a server decodes exactly the given values, behind the query that was there', async () => {
    const { url } = await receive((origin) => built({ url: `${origin}/hook?z=%2F#frag`, query }));
    expect(url.startsWith('/hook?z=%2F&q=')).toBe(true);
    expect([...new URL(url, 'http://x').searchParams]).toEqual([
      ['z', '/'],
      ['q', 'a+b c&d=é/%2B'],
      ['list', 'x'],
      ['list', 'y'],
      ['empty', ''],
    ]);
  });

  it('F42: the fragment is not sent and the query that was there is kept byte by byte', () => {
    expect(built({ url: 'https://api.example.test/a?z=%2F&y=+#frag' }).url).toBe('https://api.example.test/a?z=%2F&y=+');
  });

  it.each([
    ['https://bücher.example.test/a', 'https://xn--bcher-kva.example.test/a'],
    ['http://[2001:db8::1]:8080/a', 'http://[2001:db8::1]:8080/a'],
    ['https://api.example.test', 'https://api.example.test/'],
    ['https://api.example.test/?', 'https://api.example.test/?'],
  ])('F42: %s goes out as %s', (url, sent) => {
    expect(built({ url }).url).toBe(sent);
  });

  it('a query of named values keeps its order, and numbers and truth values are written as JSON writes them', () => {
    const named = [
      { name: 'b', value: 1.5 },
      { name: 'a', value: [true, null, 'z'] },
      { name: 'b', value: '{{ contact.attributes.name }}' },
    ];
    expect(built({ url: 'https://api.example.test/', query: named }).url).toBe('https://api.example.test/?b=1.5&a=true&a=z&b=Ada');
  });

  it('a value filled into the address cannot leave the place it is written in', () => {
    const event = { id: 'a/../b?x=1#y z%' };
    const { url } = built({ url: 'https://api.example.test/items/{{ event.id }}/end?k={{ event.id }}' }, { event });
    expect(url).toBe('https://api.example.test/items/a%2F..%2Fb%3Fx%3D1%23y%20z%25/end?k=a%2F..%2Fb%3Fx%3D1%23y%20z%25');
  });

  it.each([
    ['/api/orders/{{ event.x }}/cancel', '..', null],
    ['/api/orders/{{ event.x }}/cancel', '.', null],
    ['/api/orders/{{ event.x }}', '..', null],
    ['/api/orders/.{{ event.x }}/cancel', '.', null],
    ['/api/orders/.{{ event.x }}/cancel', '', null],
    ['/api/orders/%2E{{ event.x }}/cancel', '.', null],
    ['/api/orders/%2{{ event.x }}/cancel', 'E', null],
    ['/api/orders/%{{ event.x }}%2e/cancel', '2e', null],
    ['/api/orders\\{{ event.x }}\\cancel', '..', null],
    ['/api/orders/{{ event.x }}\t/cancel', '..', null],
    ['/api/{% if event.x %}../{% endif %}orders/{{ event.x }}', '..', null],
    ['/api/../{{ event.x }}', '7', '/7'],
    ['/api/../orders/{{ event.x }}', '..', null],
    ['/api/orders/{{ event.x }}/../all', '7', '/api/orders/all'],
    ['/api/{{ event.x }}', '...', '/api/...'],
    ['/api/{{ event.x }}', '%2e%2e', '/api/%252e%252e'],
    ['/api/{{ event.x }}', '../admin', '/api/..%2Fadmin'],
    ['/api/v{{ event.x }}', '..', '/api/v..'],
    ['/api?at={{ event.x }}', '/..', '/api?at=%2F..'],
    ['/api?at=/{{ event.x }}', '..', '/api?at=/..'],
  ])('the path %j with the value %j calls %j', (path, x, sent) => {
    const answer = reasonOf({ url: `https://api.example.test${path}` }, { event: { x } });
    if (sent === null) expect(answer).toMatch(/^A value makes the part ".+" of the path/);
    else expect(answer).toBe(`sent: https://api.example.test${sent}`);
  });

  it('a dot segment from a value fails the step for good as request_invalid', async () => {
    const result = await forwardRequest({ secretKey: 's' }).execute(stepOf({ url: 'https://api.example.test/a/{{ event.x }}/b' }, { event: { x: '..' } }));
    expect(result).toMatchObject({ kind: 'outcome', outcome: { kind: 'failed', failure: { code: 'request_invalid' } } });
  });

  it.each([
    ['http://api.example.test{{ event.x }}', '.evil.test'],
    ['http://api.example.test{{ event.x }}/a', ''],
    ['http://{{ event.x }}/a', 'evil.test'],
    ['http://{{ event.x }}@api.example.test/', 'a'],
    ['http://api.example.test:{{ event.x }}/a', '8080'],
    ['http{{ event.x }}://api.example.test/', 's'],
    ['http:///{{ event.x }}/a', 'evil.test'],
    ['http://\\{{ event.x }}/a', 'evil.test'],
    ['http://\t/{{ event.x }}/a', 'evil.test'],
    ['http://api.example.test{% if event.x %}.evil.test{% endif %}/', '1'],
    ['{% if event.x %}https://a.example.test/{% endif %}', '1'],
  ])('the host of %j cannot come from a value, neither when published nor in a run', (url, x) => {
    expect(refusedFields({ url })).toEqual(['url']);
    const stored = { ...forwardRequestConfigSchema.parse({ url: 'https://api.example.test/' }), url };
    expect(buildRequest(stored, scopeForTest({ event: { x } }), KEY)).toEqual({ ok: false, reason: expect.stringMatching(/host of the address/) });
  });

  it('a missing value in the query is an empty text, never the word undefined', () => {
    expect(built({ url: 'https://api.example.test/', query: { a: '{{ event.nothing }}' } }).url).toBe('https://api.example.test/?a=');
  });

  it.each([
    ['a host that is no host', { url: 'https://a%20b/a' }, {}, /not one that can be called/],
    ['more than 8,192 characters', { url: 'https://api.example.test/', query: { a: 'x'.repeat(9_000) } }, {}, /longer than 8192/],
  ])('an address with %s is refused in words', (_, config, scope, reason) => {
    expect(reasonOf(config, scope)).toMatch(reason);
  });

  it('a host of more than 253 characters is refused when the workflow is published, and by a run of one published before', () => {
    const urlOf = (label: string) => `https://${'a123456789.'.repeat(22)}${label}.example:8443/hook`;
    const [longest, tooLong] = [urlOf('abc'), urlOf('abcd')];
    expect(new URL(longest).hostname).toHaveLength(253);
    expect(built({ url: longest }).url).toBe(longest);
    expect(refusedFields({ url: tooLong })).toEqual(['url']);
    const stored = { ...forwardRequestConfigSchema.parse({ url: longest }), url: tooLong };
    expect(buildRequest(stored, scopeForTest(), KEY)).toEqual({ ok: false, reason: expect.stringContaining(tooLong.slice(0, 200)) });
  });
});

test.each(['https://user@api.example.test/', 'https://u:s3cr3t-F39@api.example.test/'])(
  'F39: %s is refused when it is published, and when it was stored',
  (url) => {
    expect(refusedFields({ url })).toEqual(['url']);
    const stored = { ...forwardRequestConfigSchema.parse({ url: 'https://api.example.test/' }), url };
    expect(buildRequest(stored, scopeForTest(), KEY)).toEqual({ ok: false, reason: 'The address must not carry a user name or password' });
  },
);

describe('F42: the headers of the request', () => {
  const withTitle = (title: string) => [{ url: 'https://api.example.test/', headers: { 'X-Title': '{{event.title}}' } }, { event: { title } }] as const;

  it.each([['Žižkov 🎉'], ['a\r\nX-Evil: 1'], ['a\nb'], ['bell\u0007'], ['line\u2028separator'], ['caf\u00e9']])(
    'F42: %j is refused and names its header',
    (title) => {
      expect(reasonOf(...withTitle(title))).toMatch(/header X-Title/);
    },
  );

  it('F42: such a refusal is a permanent failure, never a crash', async () => {
    const [config, scope] = withTitle('a\r\nX-Evil: 1');
    const result = await forwardRequest({ secretKey: 's' }).execute(stepOf(config, scope));
    expect(result).toMatchObject({ kind: 'outcome', outcome: { kind: 'failed', failure: { code: 'request_invalid' } } });
  });

  it('visible ASCII, blanks and tabs arrive as they are, trimmed', async () => {
    const [config, scope] = withTitle(' ~!"#$%&\'()*+,-./:;<=>?@[]^_`{|}\tz ');
    const { headers } = await receive((origin) => built({ ...config, url: origin }, scope));
    expect(headers['x-title']).toBe('~!"#$%&\'()*+,-./:;<=>?@[]^_`{|}\tz');
  });

  it('an author may name user agent and content type; the key of the step is ours', () => {
    const { headers } = built({ url: 'https://api.example.test/', headers: { 'User-Agent': 'shop/1', 'Content-Type': 'application/vnd.shop+json' } });
    expect(headers).toEqual({ 'user-agent': 'shop/1', 'content-type': 'application/vnd.shop+json', 'idempotency-key': KEY });
  });

  it.each(['Host', 'content-length', 'Transfer-Encoding', 'Connection', 'Idempotency-Key', 'Proxy-Authorization', 'bad name', 'a\r\nb', 'ž', ''])(
    'the header %j is refused when the workflow is published',
    (name) => {
      expect(refusedFields({ url: 'https://api.example.test/', headers: { [name]: 'x' } })).toEqual([`headers.${name}`]);
    },
  );

  it('one header in two cases is refused', () => {
    expect(refusedFields({ url: 'https://api.example.test/', headers: { 'X-A': '1', 'x-a': '2' } })).toEqual(['headers.x-a']);
  });

  it('headers that come to too much are refused', () => {
    expect(
      reasonOf({ url: 'https://api.example.test/', headers: { a: '{{event.a}}', b: '{{event.a}}', c: '{{event.a}}' } }, { event: { a: 'x'.repeat(8_000) } }),
    ).toMatch(/headers have/);
  });
});

describe('the body of the request', () => {
  const url = 'https://api.example.test/';

  it('texts inside a JSON body are filled deep and stay texts; everything else stays as it is', () => {
    const body = { a: '{{ contact.attributes.name }}', b: [1, null, true, '{{ event.n }}', { '{{ x }}': '{{ event.quote }}' }] };
    const request = built({ url, body }, { event: { n: 5, quote: 'say "hi"\n' } });
    expect(JSON.parse(request.body ?? '')).toEqual({ a: 'Ada', b: [1, null, true, '5', { '{{ x }}': 'say "hi"\n' }] });
    expect(request.headers['content-type']).toBe('application/json');
  });

  it('a POST without a body tells the run, the contact and the event', () => {
    const request = built({ url });
    expect(JSON.parse(request.body ?? '')).toEqual({ run: { id: 'r-1' }, contact: scopeForTest().contact, event: { title: 'Spring' } });
  });

  it.each([['PUT'], ['PATCH'], ['DELETE']])('%s without a body sends none', (method) => {
    const { body, headers } = built({ url, method });
    expect([body, headers['content-type']]).toEqual([null, undefined]);
  });

  it.each([['GET'], ['HEAD']])('%s carries no body, and one is refused when the workflow is published', (method) => {
    expect(built({ url, method }).body).toBeNull();
    expect(refusedFields({ url, method, body: {} })).toEqual(['body']);
  });

  it('a text body is filled literally', () => {
    const request = built({ url, bodyType: 'text', body: 'Hi {{ contact.attributes.name }} & <b>' });
    expect([request.body, request.headers['content-type']]).toEqual(['Hi Ada & <b>', 'text/plain; charset=utf-8']);
  });

  it('a form arrives as exactly the given values', async () => {
    const body = { q: 'a+b c&d=é/%2B', list: ['x', 'y'], none: null, empty: '', n: 3 };
    const received = await receive((origin) => built({ url: origin, bodyType: 'form', body }));
    expect(received.headers['content-type']).toBe('application/x-www-form-urlencoded');
    expect([...new URLSearchParams(received.body)]).toEqual([
      ['q', 'a+b c&d=é/%2B'],
      ['list', 'x'],
      ['list', 'y'],
      ['empty', ''],
      ['n', '3'],
    ]);
  });

  it.each([
    [{ bodyType: 'none', body: {} }],
    [{ bodyType: 'text', body: { a: 1 } }],
    [{ bodyType: 'form', body: 'a=b' }],
    [{ bodyType: 'form', body: { a: { b: 1 } } }],
  ])('%j is refused when the workflow is published', (part) => {
    expect(refusedFields({ url, ...part })).toEqual(['body']);
  });

  it.each([
    ['at the limit', MAX_BODY_BYTES, true],
    ['one byte over it', MAX_BODY_BYTES + 1, false],
  ])('a body %s is sent or refused by its bytes', (_, bytes, isSent) => {
    const answer = build({ url, bodyType: 'text', body: '{{ event.a }}{{ event.b }}' }, { event: { a: 'x'.repeat(bytes - 2), b: 'é' } });
    expect(answer.ok).toBe(isSent);
  });

  it('a name such as __proto__ in a body stays an ordinary name', () => {
    const body = JSON.parse('{"__proto__":{"polluted":"1"}}') as Json;
    expect(built({ url, body }).body).toBe('{"__proto__":{"polluted":"1"}}');
    expect(({} as { polluted?: string }).polluted).toBeUndefined();
  });
});

describe('the configuration', () => {
  it.each([
    ['file:///etc/hosts', ['url']],
    ['gopher://x', ['url']],
    ['api.example.test', ['url']],
    ['{{ event.url }}', ['url']],
    ['https://api.example.test/{{ event.id }}', []],
    ['https://api.example.test?a={{ event.id }}', []],
    ['https://api.example.test/{% if event.live %}live{% else %}test{% endif %}', []],
  ])('the address %s is refused for %j', (url, fields) => {
    expect(refusedFields({ url })).toEqual(fields);
  });

  it.each([
    [{ timeoutMs: 60_001 }, ['timeoutMs']],
    [{ timeoutMs: 60_000 }, []],
    [{ method: 'TRACE' }, ['method']],
    [{ retries: 3 }, ['']],
  ])('%j is refused for %j', (part, fields) => {
    expect(refusedFields({ url: 'https://api.example.test/', ...part })).toEqual(fields);
  });

  it('a text that is not Liquid is refused when the workflow is published, naming each', () => {
    const bad = '{{ event.title | nothing_such }}';
    expect(refusedFields({ url: `https://api.example.test/${bad}`, headers: { a: bad, b: 'x' }, query: { q: ['x', bad] }, body: { c: [{ d: bad }] } })).toEqual(
      ['url', 'headers.a', 'query.q.1', 'body.c.0.d'],
    );
  });

  it('is POST, 30 seconds and no redirects when nothing is said', () => {
    expect(built({ url: 'https://api.example.test/' })).toMatchObject({ method: 'POST', timeoutMs: 30_000, followRedirects: false });
  });
});

describe('the step', () => {
  it('hands over the finished request, and two entries of a step are the same byte for byte', async () => {
    const action = forwardRequest({ secretKey: 'secret' });
    const step = stepOf({ url: 'https://api.example.test/{{ event.title }}' }, {});
    const [first, second] = [await action.execute(step), await action.execute(step)];
    expect(first).toEqual(second);
    expect(first).toMatchObject({ kind: 'send', input: { method: 'POST', url: 'https://api.example.test/Spring' } });
  });

  it('has one Idempotency-Key for all of its attempts and another for every other step, run and secret', () => {
    const keys = [
      idempotencyKey('s', 'r', 1),
      idempotencyKey('s', 'r', 2),
      idempotencyKey('s', 'q', 1),
      idempotencyKey('t', 'r', 1),
      idempotencyKey('s', 'r', 12),
    ];
    expect(new Set(keys).size).toBe(keys.length);
    expect(idempotencyKey('s', 'r', 1)).toBe(keys[0]);
    expect(keys[0]).toMatch(/^[A-Za-z0-9_-]{43}$/);
  });

  it('fails for good with template_error when a text stored unchecked cannot be filled', async () => {
    const step = stepOf({ url: 'https://api.example.test/' }, {});
    const result = await forwardRequest({ secretKey: 's' }).execute({ ...step, config: { ...step.config, body: { a: '{{ event.title | nothing_such }}' } } });
    expect(result).toMatchObject({ kind: 'outcome', outcome: { kind: 'failed', failure: { code: 'template_error' } } });
  });
});

/** A step as the runtime makes it. This action writes nothing, so there is no transaction to give it. */
function stepOf(config: Record<string, unknown>, scope: Partial<Scope>): Step<ReturnType<typeof forwardRequestConfigSchema.parse>> {
  return {
    tx: undefined as never,
    runId: '0190a000-0000-7000-8000-000000000001',
    seq: 2,
    n: 1,
    node: 'call',
    workflowId: '0190a000-0000-7000-8000-000000000002',
    config: forwardRequestConfigSchema.parse(config),
    contactId: null,
    contact: null,
    scope: scopeForTest(scope),
    now: new Date(0),
    depth: 1,
  };
}
