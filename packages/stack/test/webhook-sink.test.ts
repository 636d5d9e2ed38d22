import { once } from 'node:events';
import { request } from 'node:http';
import { connect } from 'node:net';
import { afterEach, describe, expect, test } from 'vitest';
import { startWebhookSink, type WebhookSink, type WebhookSinkMode } from '../src/webhook-sink.js';

const started: WebhookSink[] = [];
afterEach(async () => {
  for (const sink of started.splice(0)) await sink.stop();
});

async function start(mode?: WebhookSinkMode): Promise<WebhookSink> {
  const sink = await startWebhookSink();
  if (mode !== undefined) sink.mode(mode);
  started.push(sink);
  return sink;
}

/** What a client gets to see: status and body, or the code of the error that came instead. */
function call(url: string): Promise<{ status?: number | undefined; body: string; error?: string | undefined }> {
  return new Promise((resolve) => {
    let status: number | undefined;
    let body = '';
    const end = (error?: NodeJS.ErrnoException): void => resolve({ status, body, ...(error === undefined ? {} : { error: error.code }) });
    const sent = request(url, { method: 'POST', agent: false }, (response) => {
      status = response.statusCode;
      response.on('data', (chunk: Buffer) => {
        body += chunk.toString();
      });
      response.once('error', end).once('end', () => end());
    });
    sent.once('error', end).end('{}');
  });
}

describe('the webhook sink', () => {
  test('records every byte of a request: method, path, headers in order, body', async () => {
    const sink = await start();
    const body = Buffer.from([0, 255, 10, 13, 0xc3, 0xab]);
    const answer = await fetch(`${sink.url}/hooks/a%20b?x=1&x=2`, { method: 'PATCH', body, headers: { 'Webhook-Id': 'msg_1', 'X-Two': 'b' } });
    expect([answer.status, await answer.json()]).toEqual([200, { ok: true }]);
    const [seen] = sink.requests();
    expect(seen).toMatchObject({ method: 'PATCH', path: '/hooks/a%20b?x=1&x=2', isComplete: true, headers: { 'webhook-id': 'msg_1', 'x-two': 'b' } });
    expect(seen?.body).toEqual(body);
    const client = connect(sink.port, '127.0.0.1');
    client.write('POST /raw HTTP/1.1\r\nHOST: a\r\nX-A: 1\r\nx-a: 2\r\nContent-Length: 0\r\n\r\n');
    await once(client, 'data');
    client.destroy();
    expect(sink.requests()[1]?.rawHeaders).toEqual(['HOST', 'a', 'X-A', '1', 'x-a', '2', 'Content-Length', '0']);
  });

  test('records a request that is cut short, as far as it came', async () => {
    const sink = await start();
    const client = connect(sink.port, '127.0.0.1');
    client.write('POST /cut HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nhalf');
    await sink.waitFor((requests) => requests.length === 1);
    client.destroy();
    expect(sink.requests()[0]).toMatchObject({ path: '/cut', isComplete: false });
  });

  test('fails when told to, by a program or by the button on its page, until told otherwise', async () => {
    const sink = await start();
    expect((await fetch(`${sink.url}/_mode?kind=fail`, { method: 'POST' })).status).toBe(200);
    expect((await call(`${sink.url}/x`)).status).toBe(500);
    const pressed = await fetch(`${sink.url}/_mode?kind=ok`, { method: 'POST', headers: { accept: 'text/html', origin: sink.url }, redirect: 'manual' });
    expect([pressed.status, pressed.headers.get('location')]).toEqual([303, '/_requests']);
    expect((await call(`${sink.url}/x`)).status).toBe(200);
  });

  test('answers with any status and headers, one decision a request when a test decides', async () => {
    const sink = await start();
    await fetch(`${sink.url}/_mode?kind=status&status=429&header=Retry-After:5&header=X-Why:%20slow&body=wait`, { method: 'POST' });
    const answer = await fetch(`${sink.url}/x`);
    expect([answer.status, answer.headers.get('retry-after'), answer.headers.get('x-why'), await answer.text()]).toEqual([429, '5', 'slow', 'wait']);
    sink.mode((_request, nth) => (nth % 2 === 0 ? { kind: 'ok' } : { kind: 'status', status: 503 }));
    expect([(await call(`${sink.url}/x`)).status, (await call(`${sink.url}/x`)).status]).toEqual([200, 503]);
  });

  test('never answers when told to hang, and lets go at the stop', async () => {
    const sink = await start({ kind: 'hang' });
    const answer = call(`${sink.url}/x`);
    await sink.waitFor((requests) => requests.some(({ isComplete }) => isComplete));
    expect(await sink.countConnections()).toBe(1);
    await sink.stop();
    expect(await answer).toEqual({ status: undefined, body: '', error: 'ECONNRESET' });
  });

  test('resets, cuts, drips and answers late', async () => {
    const sink = await start({ kind: 'reset' });
    expect(await call(`${sink.url}/x`)).toEqual({ status: undefined, body: '', error: 'ECONNRESET' });
    sink.mode({ kind: 'cut' });
    expect(await call(`${sink.url}/x`)).toEqual({ status: 200, body: '{"ok":true,"then":"', error: 'ECONNRESET' });
    for (const mode of [
      { kind: 'drip', bytes: 4, intervalMs: 40 },
      { kind: 'late', delayMs: 150 },
    ] as const) {
      sink.mode(mode);
      const before = performance.now();
      expect(await call(`${sink.url}/x`)).toEqual({ status: 200, body: mode.kind === 'drip' ? '....' : '{"ok":true}' });
      expect(performance.now() - before).toBeGreaterThan(140);
    }
  });

  test('keeps with each request what it was answered, and shows it beside its key and its JSON in lines', async () => {
    const sink = await start();
    await fetch(`${sink.url}/orders`, { method: 'POST', body: '{"id":1}', headers: { 'idempotency-key': '0192f3c4-5b6a-7890-8abc-0123456789ab' } });
    for (const [kind, nth] of [
      ['fail', 2],
      ['reset', 3],
      ['cut', 4],
    ] as const) {
      sink.mode({ kind });
      await call(`${sink.url}/orders`);
      await sink.waitFor((requests) => requests[nth - 1]?.answer !== undefined);
    }
    expect(sink.requests().map(({ answer }) => answer)).toEqual([
      { kind: 'status', status: 200, isWhole: true },
      { kind: 'status', status: 500, isWhole: true },
      { kind: 'none' },
      { kind: 'status', status: 200, isWhole: false },
    ]);
    sink.mode({ kind: 'hang' });
    const unanswered = call(`${sink.url}/orders`);
    await sink.waitFor((requests) => requests.length === 5);
    const page = await (await fetch(sink.pageUrl)).text();
    expect(page.match(/→ 200, cut short|→ [0-9]+|no answer|not answered yet/g)).toEqual([
      'not answered yet',
      '→ 200, cut short',
      'no answer',
      '→ 500',
      '→ 200',
    ]);
    expect(page).toContain('key 0192…456789ab');
    expect(page).toContain('<pre>{\n  &quot;id&quot;: 1\n}</pre>');
    await sink.stop();
    await unanswered;
  });

  test('shows a body as it came when its JSON would not come out the same', async () => {
    const sink = await start();
    await fetch(`${sink.url}/x`, { method: 'POST', body: '{"id":12345678901234567890}' });
    expect(await (await fetch(sink.pageUrl)).text()).toContain('<pre>{&quot;id&quot;:12345678901234567890}</pre>');
  });

  test('shows what arrived on a page that escapes it, and as JSON; its own paths are not recorded', async () => {
    const sink = await start();
    await fetch(`${sink.url}/<script>`, { method: 'POST', body: '<script>alert(1)</script>' });
    const page = await (await fetch(sink.pageUrl)).text();
    expect(page).toContain('&lt;script&gt;alert(1)&lt;/script&gt;');
    expect(page.toLowerCase()).not.toContain('<script');
    expect(await (await fetch(`${sink.url}/_requests.json`)).json()).toMatchObject([{ method: 'POST', body: '<script>alert(1)</script>' }]);
    expect(sink.requests()).toHaveLength(1);
    expect((await fetch(`${sink.url}/_mode?kind=fail`, { method: 'POST', headers: { origin: 'http://evil.test' } })).status).toBe(403);
    expect((await fetch(`${sink.url}/_mode?kind=nonsense`, { method: 'POST' })).status).toBe(400);
    await fetch(`${sink.url}/_clear`, { method: 'POST' });
    expect(sink.requests()).toEqual([]);
  });
});
