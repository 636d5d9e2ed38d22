import { once } from 'node:events';
import { connect } from 'node:net';
import { afterEach, describe, expect, test, vi } from 'vitest';
import { BackendClient, type BackendTarget } from '../src/client.js';
import { MessageReader } from '../src/codec.js';
import { ClientClosed, RpcFault, RpcTimeout } from '../src/faults.js';
import { encodePacket, sign } from '../src/signing.js';
import { type Call, type RpcServer, SECRET, startRpcServer } from './rpc-server.js';

const BEGIN = 'mail.message.begin';
const MESSAGE = { messageId: '0190c0de-0000-7000-8000-000000000001', try: 1 };
const REF = { ...MESSAGE, callId: '0190c0de-0000-7000-8000-000000000002' };
const SKIP = { kind: 'skip', reason: 'because' } as const;

const ends: (() => Promise<void> | void)[] = [];
afterEach(async () => {
  for (const end of ends.splice(0).reverse()) await end();
});

async function serve(handle: (call: Call) => void, options?: Parameters<typeof startRpcServer>[1]): Promise<RpcServer> {
  const server = await startRpcServer(handle, options);
  ends.push(server.close);
  return server;
}

function clientOf({ port }: { port: number }, over: Partial<BackendTarget> = {}): BackendClient {
  const client = new BackendClient({ host: '127.0.0.1', port, secret: SECRET, timeoutMs: 10_000, ...over });
  ends.push(() => client.close());
  return client;
}

/** A port on which nothing listens. */
async function freePort(): Promise<number> {
  const server = await startRpcServer(() => undefined);
  await server.close();
  return server.port;
}

function latch(): { opened: Promise<void>; open: () => void } {
  let open: () => void = () => undefined;
  const opened = new Promise<void>((resolve) => {
    open = resolve;
  });
  return { opened, open };
}

function linesOf(): { lines: string[]; info: (fields: object, message: string) => void; warn: (fields: object, message: string) => void } {
  const lines: string[] = [];
  return { lines, info: (_fields, message) => void lines.push(message), warn: (_fields, message) => void lines.push(message) };
}

describe('a call', () => {
  test('carries its data and comes back with the reply of its pattern', async () => {
    const seen: Call[] = [];
    const server = await serve((call) => {
      seen.push(call);
      call.answer({ reply: SKIP });
    });
    expect(await clientOf(server).call(BEGIN, REF)).toEqual(SKIP);
    expect(seen.map(({ pattern, data }) => ({ pattern, data }))).toEqual([{ pattern: BEGIN, data: REF }]);
  });

  test('finds its own answer among a thousand that come out of order on one connection', async () => {
    const open: Call[] = [];
    const server = await serve((call) => {
      open.push(call);
      if (open.length < 1_000) return;
      for (const late of open.splice(0).sort(() => Math.random() - 0.5))
        late.answer({ reply: { kind: 'skip', reason: String((late.data as typeof REF).try) } });
    });
    const client = clientOf(server);
    const replies = await Promise.all(Array.from({ length: 1_000 }, (_, n) => client.call(BEGIN, { ...REF, try: n + 1 })));
    expect(replies.map((reply) => (reply.kind === 'skip' ? reply.reason : reply.kind))).toEqual(replies.map((_, n) => String(n + 1)));
    expect(server.connections).toBe(1);
  });

  test('leaves together with the others of its turn', async () => {
    const server = await serve((call) => call.answer({ reply: SKIP }));
    const client = clientOf(server);
    await client.call(BEGIN, REF);
    server.chunks.length = 0;
    await Promise.all(Array.from({ length: 20 }, () => client.call(BEGIN, REF)));
    expect(server.chunks).toHaveLength(1);
  });

  test.each(['unauthenticated', 'malformed', 'too_large', 'unknown_pattern', 'internal', 'invalid'] as const)('answered %s throws at once', async (code) => {
    let calls = 0;
    const server = await serve((call) => {
      calls++;
      call.answer({ error: { code, detail: 'why' } });
    });
    const thrown = await clientOf(server)
      .call(BEGIN, REF)
      .catch((error: unknown) => error);
    expect(thrown).toBeInstanceOf(RpcFault);
    expect(thrown).toMatchObject({ code, detail: 'why', pattern: BEGIN });
    expect(calls).toBe(1);
  });

  test('with the wrong secret is unauthenticated and reaches no handler', async () => {
    let calls = 0;
    const server = await serve(() => calls++);
    await expect(clientOf(server, { secret: 'another secret of the same length' }).call(BEGIN, REF)).rejects.toMatchObject({ code: 'unauthenticated' });
    expect(calls).toBe(0);
  });

  test('too large to travel throws before it dials', async () => {
    const server = await serve(() => undefined);
    const client = clientOf(server);
    const result = { kind: 'sent', response: 'x'.repeat(5 * 1024 * 1024), at: '2026-01-01T00:00:00Z' } as const;
    await expect(client.call('mail.message.end', { ...MESSAGE, result })).rejects.toMatchObject({ name: 'RpcFault', code: 'too_large' });
    const quotes = { ...result, response: '"'.repeat(2_200_000) };
    await expect(client.call('mail.message.end', { ...MESSAGE, result: quotes })).rejects.toMatchObject({ name: 'RpcFault', code: 'too_large' });
    await new Promise<void>((resolve) => setImmediate(resolve));
    expect(server.connections).toBe(0);
  });

  test('whose reply does not fit its pattern throws at once', async () => {
    const server = await serve((call) => call.answer({ reply: { kind: 'skip' } }));
    await expect(clientOf(server).call(BEGIN, REF)).rejects.toMatchObject({ name: 'RpcFault', code: 'malformed' });
  });
});

describe('a call is sent again', () => {
  test('when its connection is cut before the answer', async () => {
    const tries: Call[] = [];
    const server = await serve((call) => {
      tries.push(call);
      if (tries.length === 1) call.socket.destroy();
      else call.answer({ reply: SKIP });
    });
    expect(await clientOf(server).call(BEGIN, REF)).toEqual(SKIP);
    expect(tries.map(({ data }) => data)).toEqual([REF, REF]);
    expect(new Set(tries.map(({ connection }) => connection)).size).toBe(2);
  });

  test('when nothing listened at first', async () => {
    const port = await freePort();
    const client = clientOf({ port });
    const call = client.call(BEGIN, REF);
    await serve((late) => late.answer({ reply: SKIP }), { port });
    expect(await call).toEqual(SKIP);
  });

  test.each(['draining', 'unavailable'] as const)('when it was answered %s', async (code) => {
    let calls = 0;
    const server = await serve((call) => {
      calls++;
      call.answer(calls < 3 ? { error: { code, detail: '' } } : { reply: SKIP });
    });
    const startedAtMs = performance.now();
    expect(await clientOf(server).call(BEGIN, REF)).toEqual(SKIP);
    expect(calls).toBe(3);
    expect(performance.now() - startedAtMs).toBeGreaterThanOrEqual(2 * 200 - 5);
  });

  test('over another connection after draining, while what is open on the old one is still answered', async () => {
    const open: Call[] = [];
    const server = await serve((call) => {
      if (call.connection === 0 && open.length === 0) open.push(call);
      else if (call.connection === 0) call.answer({ error: { code: 'draining', detail: '' } });
      else {
        call.answer({ reply: { kind: 'skip', reason: 'new' } });
        open[0]?.answer({ reply: { kind: 'skip', reason: 'old' } });
      }
    });
    const client = clientOf(server);
    const replies = await Promise.all([client.call(BEGIN, REF), client.call(BEGIN, REF)]);
    expect(replies).toEqual([
      { kind: 'skip', reason: 'old' },
      { kind: 'skip', reason: 'new' },
    ]);
  });

  test('when the backend sends something that is no message, a bomb or too much', async () => {
    const faults = ['not a message', `${'9'.repeat(8)}#`, `130#${'['.repeat(130)}`, '8#{"id":1}', '2#{}'];
    let calls = 0;
    const server = await serve((call) => {
      const fault = faults[calls++];
      if (fault) call.socket.write(fault);
      else call.answer({ reply: SKIP });
    });
    expect(await clientOf(server).call(BEGIN, REF)).toEqual(SKIP);
    expect(server.connections).toBe(faults.length + 1);
  });

  test('when its signature grew too old at a backend that stood still, and not for a secret that is wrong', async () => {
    vi.useFakeTimers({ toFake: ['Date'] });
    ends.push(() => void vi.useRealTimers());
    let sendings = 0;
    const server = await serve((call) => {
      sendings += 1;
      if (sendings > 1) return call.answer({ reply: SKIP });
      vi.setSystemTime(Date.now() + 31_000);
      call.answer({ error: { code: 'unauthenticated', detail: '' } });
    });
    expect(await clientOf(server).call(BEGIN, REF)).toEqual(SKIP);
    expect(sendings).toBe(2);
  });

  test('with a signature of its own each time', async () => {
    const macs: string[] = [];
    const server = await serve((call) => {
      if (server.connections < 3) call.socket.destroy();
      else call.answer({ reply: SKIP });
    });
    await clientOf(server).call(BEGIN, REF);
    for (const chunk of server.chunks) macs.push(...(new MessageReader().push(chunk) as { auth: { mac: string } }[]).map(({ auth }) => auth.mac));
    expect(new Set(macs).size).toBe(3);
  });
});

describe('a call ends', () => {
  test('with RpcTimeout at its deadline when no answer comes', async () => {
    const server = await serve(() => undefined);
    const startedAtMs = performance.now();
    const thrown = await clientOf(server, { timeoutMs: 300 })
      .call(BEGIN, REF)
      .catch((error: unknown) => error);
    expect(thrown).toBeInstanceOf(RpcTimeout);
    expect(thrown).toMatchObject({ pattern: BEGIN, timeoutMs: 300 });
    expect(performance.now() - startedAtMs).toBeGreaterThanOrEqual(295);
  });

  test('with RpcTimeout that names the last reason when the backend stayed away', async () => {
    const client = clientOf({ port: await freePort() });
    await expect(client.call(BEGIN, REF, { timeoutMs: 500 })).rejects.toMatchObject({
      name: 'RpcTimeout',
      lastReason: expect.stringContaining('ECONNREFUSED'),
    });
  });

  test('with the reason of its signal when it is aborted while it is open', async () => {
    const server = await serve(() => undefined);
    const why = new Error('stopping');
    const abort = new AbortController();
    const call = clientOf(server).call(BEGIN, REF, { signal: abort.signal });
    abort.abort(why);
    await expect(call).rejects.toBe(why);
  });

  test('before a byte is sent when its signal was aborted before', async () => {
    const tries: unknown[] = [];
    const server = await serve((call) => {
      tries.push((call.data as typeof REF).try);
      call.answer({ reply: SKIP });
    });
    const client = clientOf(server);
    await client.waitUntilReachable(linesOf());
    const why = new Error('stopping');
    await expect(client.call(BEGIN, { ...REF, try: 7 }, { signal: AbortSignal.abort(why) })).rejects.toBe(why);
    await client.call(BEGIN, REF);
    expect(tries).toEqual([1]);
  });

  test('with ClientClosed when the client is closed, and so does every later one', async () => {
    const arrived = latch();
    const server = await serve(() => arrived.open());
    const client = clientOf(server);
    const call = client.call(BEGIN, REF).catch((error: unknown) => error);
    await arrived.opened;
    client.close();
    expect(await call).toBeInstanceOf(ClientClosed);
    await expect(client.call(BEGIN, REF)).rejects.toBeInstanceOf(ClientClosed);
  });

  test('and its late answer disturbs no other', async () => {
    const open: Call[] = [];
    const arrived = latch();
    const server = await serve((call) => {
      open.push(call);
      if (open.length === 1) return arrived.open();
      open[0]?.answer({ reply: { kind: 'skip', reason: 'late' } });
      call.answer({ reply: SKIP });
    });
    const client = clientOf(server);
    const abort = new AbortController();
    const first = client.call(BEGIN, REF, { signal: abort.signal });
    await arrived.opened;
    abort.abort(new Error('no longer wanted'));
    await expect(first).rejects.toThrow('no longer wanted');
    expect(await client.call(BEGIN, REF)).toEqual(SKIP);
    expect(open).toHaveLength(2);
    expect(server.connections).toBe(1);
  });

  test('at its deadline on a connection that went silent, and the next one dials anew', async () => {
    const server = await serve((call) => {
      if (call.connection > 0) call.answer({ reply: SKIP });
    });
    const client = clientOf(server);
    await expect(client.call(BEGIN, REF, { timeoutMs: 300 })).rejects.toBeInstanceOf(RpcTimeout);
    expect(await client.call(BEGIN, REF)).toEqual(SKIP);
    expect(server.connections).toBe(2);
  });
});

describe('the backend', () => {
  test('is waited for, and what is waited for is said once', async () => {
    const port = await freePort();
    const log = linesOf();
    const client = clientOf({ port });
    const abort = new AbortController();
    await expect(client.waitUntilReachable(log, { signal: AbortSignal.timeout(1_000) })).rejects.toThrow();
    expect(log.lines).toEqual([`waiting for the backend at 127.0.0.1:${port}`]);
    const reached = client.waitUntilReachable(log, { signal: abort.signal });
    await serve(() => undefined, { port });
    await reached;
  });

  test('that went and came back is logged once each way', async () => {
    const log = linesOf();
    const server = await serve((call) => {
      if (call.connection === 0) call.socket.destroy();
      else call.answer({ reply: SKIP });
    });
    const client = clientOf(server, { log });
    await Promise.all(Array.from({ length: 5 }, () => client.call(BEGIN, REF)));
    expect(log.lines).toEqual(['the backend cannot be reached; open calls are sent again', 'the backend is reached again']);
  });

  test('that stays away is logged once, however often it is dialled', async () => {
    const log = linesOf();
    await expect(clientOf({ port: await freePort() }, { log }).call(BEGIN, REF, { timeoutMs: 1_500 })).rejects.toBeInstanceOf(RpcTimeout);
    expect(log.lines).toEqual(['the backend cannot be reached; open calls are sent again']);
  });

  test('is not called away when a call that was once cut runs out of time on a connection that answers others', async () => {
    const log = linesOf();
    const server = await serve((call) => {
      if (call.connection === 0) call.socket.destroy();
      else if ((call.data as typeof REF).try === 2) call.answer({ reply: SKIP });
      else void client.call(BEGIN, { ...REF, try: 2 });
    });
    const client = clientOf(server, { log });
    await expect(client.call(BEGIN, REF, { timeoutMs: 1_000 })).rejects.toBeInstanceOf(RpcTimeout);
    expect(log.lines).toEqual(['the backend cannot be reached; open calls are sent again', 'the backend is reached again']);
  });

  test('refuses a packet that somebody sends a second time', async () => {
    let calls = 0;
    const server = await serve((call) => {
      calls++;
      call.answer({ reply: SKIP });
    });
    const socket = connect(server.port, '127.0.0.1');
    ends.push(() => void socket.destroy());
    const bytes = encodePacket(sign({ secret: SECRET, pattern: BEGIN, body: JSON.stringify(REF), id: 'a' }, Date.now()));
    const reader = new MessageReader();
    const answers: unknown[] = [];
    socket.write(bytes);
    socket.write(bytes);
    while (answers.length < 2) answers.push(...reader.push(((await once(socket, 'data')) as [Buffer])[0]));
    expect(answers).toEqual([
      { id: 'a', reply: SKIP },
      { id: 'a', error: { code: 'unauthenticated', detail: '' } },
    ]);
    expect(calls).toBe(1);
  });
});
