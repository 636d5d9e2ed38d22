import type { MessageResult } from '@onward/contracts/mail';
import type { MailJob } from '@onward/contracts/queues';
import { BackendClient } from '@onward/wire/client';
import { pino } from 'pino';
import { afterEach, describe, expect, test } from 'vitest';
import { handOver } from '../src/hand-over.js';
import { deliver } from '../src/send-message.js';
import { openSmtpTransport } from '../src/smtp-transport.js';
import { type Backend, type Script, startBackend } from './backend.js';
import { messageOf } from './message.js';
import { type RawSmtpServer, startRawSmtpServer } from './raw-smtp-server.js';

const JOB: MailJob = { messageId: '0190c0de-0000-7000-8000-000000000001', try: 1 };

const ends: (() => Promise<void> | void)[] = [];
afterEach(async () => {
  for (const end of ends.splice(0).reverse()) await end();
});

interface Place {
  backend: Backend;
  smtp: RawSmtpServer;
  announced: MessageResult[];
  cut: AbortController;
  giveUp: AbortController;
  run(job?: MailJob): Promise<string>;
}

/** A gateway without its queue: real backend connection, real mail server. */
async function placeOf(script: Partial<Script> = {}, { timeoutMs = 10_000 }: { timeoutMs?: number } = {}): Promise<Place> {
  const backend = await startBackend({ begin: (ref) => ({ reply: { kind: 'send', message: messageOf(ref) } }), ...script });
  const smtp = await startRawSmtpServer();
  const client = new BackendClient({ ...backend, timeoutMs });
  const transport = openSmtpTransport(smtp.url, { connections: 2 });
  ends.push(
    backend.close,
    smtp.close,
    () => client.close(),
    () => transport.close({ force: true }),
  );
  const announced: MessageResult[] = [];
  const cut = new AbortController();
  const giveUp = new AbortController();
  return {
    backend,
    smtp,
    announced,
    cut,
    giveUp,
    run: (job = JOB) =>
      deliver(job, {
        backend: client,
        handOver: (message, options) => handOver(transport, message, options),
        announce: async (result) => void announced.push(result),
        log: pino({ level: 'silent' }),
        cut: cut.signal,
        giveUp: giveUp.signal,
      }),
  };
}

describe('a message', () => {
  test('is begun, sent, told to the backend and announced, each once', async () => {
    const { run, backend, smtp, announced } = await placeOf();
    expect(await run()).toBe('sent');
    expect(backend.begun).toEqual([JOB]);
    expect(smtp.messages).toHaveLength(1);
    expect(backend.ended).toEqual([{ ...JOB, result: { kind: 'sent', response: '250 2.0.0 queued as 7F3A', at: expect.any(String) } }]);
    expect(announced).toEqual(backend.ended);
  });

  test.each([
    { kind: 'skip', reason: 'the address is suppressed' },
    { kind: 'already', state: 'begun' },
  ])('that the backend answers with $kind never reaches the mail server', async (reply) => {
    const { run, backend, smtp, announced } = await placeOf({ begin: () => ({ reply }) });
    expect(await run()).toBe(reply.kind);
    expect({ connections: smtp.connections, ended: backend.ended, announced }).toEqual({ connections: 0, ended: [], announced: [] });
  });

  test('whose begin lost its answer asks again under the same callId, and is sent', async () => {
    const { run, backend, smtp } = await placeOf({
      begin: (ref, nth) => (nth === 1 ? 'cut' : { reply: { kind: 'send', message: messageOf(ref) } }),
    });
    expect(await run()).toBe('sent');
    expect(backend.callIds).toHaveLength(2);
    expect(new Set(backend.callIds).size).toBe(1);
    expect(smtp.messages).toHaveLength(1);
  });

  test('whose begin is not answered in time is not sent', async () => {
    const { run, smtp } = await placeOf({ begin: () => 'silent' }, { timeoutMs: 300 });
    await expect(run()).rejects.toMatchObject({ name: 'RpcTimeout' });
    expect(smtp.connections).toBe(0);
  });

  test('with an address that cannot be used is told as failed without a word to the mail server', async () => {
    const { run, backend, smtp } = await placeOf({
      begin: () => ({ reply: { kind: 'send', message: messageOf({ to: { name: '', address: 'a@example.test\r\nRCPT TO:<x@evil.example.test>' } }) } }),
    });
    expect(await run()).toBe('failed');
    expect(backend.ended).toMatchObject([{ result: { kind: 'failed', failure: { code: 'address_invalid' } } }]);
    expect(smtp.connections).toBe(0);
  });
});

describe('the result', () => {
  test('is told again when the connection breaks before the answer, and the message is not sent again', async () => {
    const { run, backend, smtp } = await placeOf({ end: (_result, nth) => (nth === 1 ? 'cut' : { reply: { kind: 'already', state: 'sent' } }) });
    expect(await run()).toBe('sent');
    expect(backend.ended).toHaveLength(2);
    expect(backend.ended[1]).toEqual(backend.ended[0]);
    expect(smtp.messages).toHaveLength(1);
  });

  test('is announced and told again when the backend lets the deadline pass', async () => {
    const { run, backend, announced, smtp } = await placeOf(
      { end: (_result, nth) => (nth < 3 ? 'silent' : { reply: { kind: 'stored' } }) },
      { timeoutMs: 300 },
    );
    expect(await run()).toBe('sent');
    expect(backend.ended).toHaveLength(3);
    expect(announced.length).toBeGreaterThanOrEqual(1);
    expect(smtp.messages).toHaveLength(1);
  });

  test('that the backend cannot accept is announced all the same', async () => {
    const { run, backend, announced } = await placeOf({ end: () => ({ error: { code: 'internal', detail: '' } }) });
    await expect(run()).rejects.toMatchObject({ name: 'RpcFault', code: 'internal' });
    expect(backend.ended).toHaveLength(1);
    expect(announced).toEqual(backend.ended);
  });

  test('is told until the process must go', async () => {
    const { run, backend, announced, giveUp } = await placeOf({ end: () => 'silent' });
    const isAsked = backend.nextEnd();
    const running = run();
    const told = await isAsked;
    giveUp.abort(new Error('gone'));
    await expect(running).rejects.toThrow('gone');
    expect(announced).toEqual([told]);
  });

  test('of an exchange that was cut is still told', async () => {
    const { run, backend, smtp, cut } = await placeOf();
    smtp.script = { end: 'silent' };
    const reached = smtp.reached('end');
    const running = run();
    await reached;
    cut.abort();
    expect(await running).toBe('uncertain');
    expect(backend.ended).toMatchObject([{ result: { kind: 'uncertain', failure: { code: 'mail_uncertain' } } }]);
  });
});

describe('F52: SMTP time-out after the message was accepted', () => {
  test('a drop before 250 is uncertain, and the second try carries the same Message-ID', async () => {
    const { run, backend, smtp } = await placeOf();
    smtp.script = { end: 'cut' };
    expect(await run()).toBe('uncertain');
    smtp.script = {};
    expect(await run({ ...JOB, try: 2 })).toBe('sent');
    const ids = smtp.messages.map((message) => /^Message-ID: (.*)\r$/m.exec(message)?.[1]);
    expect(ids).toEqual(['<0190c0de.1@onward.example.test>', '<0190c0de.1@onward.example.test>']);
    expect(backend.ended.map(({ try: n, result }) => [n, result.kind])).toEqual([
      [1, 'uncertain'],
      [2, 'sent'],
    ]);
  });

  test('a job that is handed out again after the message was begun sends nothing', async () => {
    const { run, smtp } = await placeOf({
      begin: (ref, nth) => ({ reply: nth === 1 ? { kind: 'send', message: messageOf(ref) } : { kind: 'already', state: 'begun' } }),
    });
    smtp.script = { end: 'cut' };
    expect(await run()).toBe('uncertain');
    expect(await run()).toBe('already');
    expect(smtp.messages).toHaveLength(1);
  });
});
