/** The gateway as a whole on a real Valkey of its own, which some tests wipe or stop. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { MessageResult } from '@onward/contracts/mail';
import { MAIL_QUEUE, MAIL_RESULTS_QUEUE, type MailJob, QUEUE_PREFIX, SEND_MESSAGE } from '@onward/contracts/queues';
import { type ValkeyServer, startValkey } from '@onward/stack/valkey';
import { Queue, Worker } from 'bullmq';
import { Redis } from 'ioredis';
import { pino } from 'pino';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { type Gateway, startGateway } from '../src/gateway.js';
import { type Backend, SECRET, type Script, startBackend } from './backend.js';
import { messageOf } from './message.js';
import { type RawSmtpServer, startRawSmtpServer } from './raw-smtp-server.js';

const MAIN = fileURLToPath(new URL('../dist/main.js', import.meta.url));
const REF: MailJob = { messageId: '0190c0de-0000-7000-8000-000000000001', try: 1 };
const silent = pino({ level: 'silent' });

let folder: string;
let valkey: ValkeyServer;
let redis: Redis;
let backend: Backend;
let smtp: RawSmtpServer;
const ends: (() => unknown)[] = [];

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'mail-gateway-'));
  valkey = await startValkey({ dataDir: join(folder, 'valkey') });
  redis = new Redis(valkey.url);
}, 120_000);

afterAll(async () => {
  redis?.disconnect();
  await valkey?.stop();
  rmSync(folder, { recursive: true, force: true });
});

beforeEach(async () => {
  await redis.flushall();
  smtp = await startRawSmtpServer();
  ends.push(smtp.close);
});

afterEach(async () => {
  for (const end of ends.splice(0).reverse()) await end();
});

async function startBackendOf(script: Partial<Script> = {}): Promise<void> {
  backend = await startBackend({ begin: (ref) => ({ reply: { kind: 'send', message: messageOf(ref) } }), ...script });
  ends.push(backend.close);
}

async function start(valkeyUrl = valkey.url): Promise<Gateway> {
  const settings = {
    valkeyUrl,
    smtpUrl: smtp.url,
    concurrency: 2,
    logLevel: 'silent',
    failPoints: '',
    backend: { host: '127.0.0.1', port: backend.port, secret: SECRET, timeoutMs: 5_000 },
  };
  const gateway = await startGateway(settings, silent, { signal: new AbortController().signal });
  let stopping: Promise<void> | undefined;
  const stop = () => (stopping ??= gateway.stop());
  ends.push(stop);
  return { stop };
}

function queueOf(name: string, url: string): Queue {
  const queue = new Queue(name, { prefix: QUEUE_PREFIX, connection: { url, maxRetriesPerRequest: 1 } });
  queue.on('error', () => undefined);
  ends.push(() => queue.close());
  return queue;
}

async function send(job: object = REF, id = `${REF.messageId}-${REF.try}`, url = valkey.url): Promise<void> {
  const queue = queueOf(MAIL_QUEUE, url);
  await queue.add(SEND_MESSAGE, job, { jobId: id, attempts: 5, backoff: { type: 'fixed', delay: 100 }, removeOnComplete: true, removeOnFail: true });
}

/** The first result that is announced. */
function firstAnnounced(): Promise<{ id: string | undefined; result: MessageResult }> {
  return new Promise((resolve) => {
    const worker = new Worker(MAIL_RESULTS_QUEUE, async ({ id, data }) => resolve({ id, result: data as MessageResult }), {
      prefix: QUEUE_PREFIX,
      connection: { url: valkey.url, maxRetriesPerRequest: null },
    });
    worker.on('error', () => undefined);
    ends.push(() => worker.close());
  });
}

describe('a job of the mail queue', () => {
  test('is delivered, its result told and announced, and nothing of it stays behind', async () => {
    await startBackendOf();
    const gateway = await start();
    const announced = firstAnnounced();
    await send();
    expect(await announced).toEqual({
      id: `${REF.messageId}-1`,
      result: { ...REF, result: { kind: 'sent', response: '250 2.0.0 queued as 7F3A', at: expect.any(String) } },
    });
    expect(backend.ended).toHaveLength(1);
    await gateway.stop();
    expect((await redis.keys(`*${REF.messageId}*`)).filter((key) => key.includes(`:${MAIL_QUEUE}:`))).toEqual([]);
  });

  test('that names no message is dropped and the next one is delivered', async () => {
    await startBackendOf();
    await start();
    const announced = firstAnnounced();
    await send({ messageId: 'x', try: 0 }, 'odd');
    await send();
    expect(await announced).toMatchObject({ result: REF });
    expect(backend.begun).toEqual([REF]);
  });

  test('is handed out again when the backend could not take it on', async () => {
    await startBackendOf({
      begin: (ref, nth) => (nth === 1 ? { error: { code: 'internal', detail: '' } } : { reply: { kind: 'send', message: messageOf(ref) } }),
    });
    await start();
    const announced = firstAnnounced();
    await send();
    expect(await announced).toMatchObject({ result: { result: { kind: 'sent' } } });
    expect(backend.begun).toEqual([REF, REF]);
  });

  test('outlives a wiped Valkey: its result is told, and the next job is taken', async () => {
    await startBackendOf();
    await start();
    smtp.script = { data: 'silent' };
    const reached = smtp.reached('data');
    const told = backend.nextEnd();
    await send();
    await reached;
    await redis.flushall();
    smtp.cutAll();
    expect(await told).toMatchObject({ result: { kind: 'failed', failure: { code: 'smtp_retryable' } } });
    smtp.script = {};
    const next = backend.nextEnd();
    await send({ ...REF, try: 2 }, `${REF.messageId}-2`);
    expect(await next).toMatchObject({ try: 2, result: { kind: 'sent' } });
  });
});

test('Valkey may go while a message is delivered and come back: the result is told, and the next job is taken', async () => {
  await startBackendOf();
  const dataDir = join(folder, 'coming-and-going');
  const first = await startValkey({ dataDir });
  ends.push(() => first.stop());
  await start(first.url);
  smtp.script = { mail: 'silent' };
  const reached = smtp.reached('mail');
  const told = backend.nextEnd();
  await send(REF, 'first', first.url);
  await reached;
  first.kill('SIGKILL');
  await first.exited;
  smtp.script = {};
  smtp.cutAll();
  expect(await told).toMatchObject({ try: 1 });
  const second = await startValkey({ dataDir, port: first.port });
  ends.push(() => second.stop());
  expect(second.url).toBe(first.url);
  const next = backend.nextEnd();
  await send({ ...REF, try: 2 }, 'second', second.url);
  expect(await next).toMatchObject({ try: 2, result: { kind: 'sent' } });
}, 60_000);

describe('stopping', () => {
  test('lets the exchange in flight end and its result be told', async () => {
    await startBackendOf();
    const gateway = await start();
    smtp.script = { end: 'silent' };
    const reached = smtp.reached('end');
    await send();
    await reached;
    const isStopped = gateway.stop();
    const told = backend.nextEnd();
    smtp.say('250 2.0.0 late');
    await isStopped;
    expect(await told).toMatchObject({ result: { kind: 'sent', response: '250 2.0.0 late' } });
  });
});

describe('the process', () => {
  /** Runs the built gateway; `said` resolves when a line of its output holds the text. */
  function run(env: Record<string, string>) {
    const child = spawn(process.execPath, [MAIN], { env: { PATH: process.env['PATH'] ?? '', ...env }, stdio: ['ignore', 'pipe', 'pipe'] });
    let output = '';
    const waiting: { text: string; resolve: () => void }[] = [];
    const take = (chunk: Buffer) => {
      output += chunk.toString();
      for (const waiter of waiting.splice(0)) {
        if (output.includes(waiter.text)) waiter.resolve();
        else waiting.push(waiter);
      }
    };
    child.stdout.on('data', take);
    child.stderr.on('data', take);
    const exited = once(child, 'close').then(([code, signal]) => ({ code, signal }) as { code: number | null; signal: string | null });
    ends.push(() => child.kill('SIGKILL'));
    return {
      child,
      exited,
      output: () => output,
      said: (text: string) => new Promise<void>((resolve) => (output.includes(text) ? resolve() : waiting.push({ text, resolve }))),
    };
  }

  function envOf(over: Record<string, string> = {}): Record<string, string> {
    return {
      VALKEY_URL: valkey.url,
      SMTP_URL: smtp.url,
      BACKEND_MICROSERVICE_TARGET_PORT: String(backend.port),
      BACKEND_MICROSERVICE_SECRET: SECRET,
      ...over,
    };
  }

  test('names every setting that is missing or wrong, prints no value, and ends with 1', async () => {
    const { exited, output } = run({
      VALKEY_URL: 'http://:hidden@nowhere',
      SMTP_URL: '',
      BACKEND_MICROSERVICE_SECRET: 'too short',
      MAIL_GATEWAY_CONCURRENCY: 'many',
    });
    expect((await exited).code).toBe(1);
    const named = output()
      .trim()
      .split('\n')
      .map((line) => line.split(' ')[1]);
    expect(named).toEqual(['VALKEY_URL', 'SMTP_URL', 'BACKEND_MICROSERVICE_SECRET', 'MAIL_GATEWAY_CONCURRENCY']);
    expect(output()).not.toMatch(/hidden|too short|many/);
  });

  test('says that it waits for the backend, and stops at once when told to', async () => {
    await startBackendOf();
    await backend.close();
    ends.splice(ends.indexOf(backend.close), 1);
    const { child, exited, said, output } = run(envOf());
    await said(`waiting for the backend at 127.0.0.1:${backend.port}`);
    child.kill('SIGTERM');
    expect(await exited).toEqual({ code: 0, signal: null });
    expect(output()).not.toContain(SECRET);
  });

  test('says that it waits for Valkey, without the password', async () => {
    await startBackendOf();
    const { child, exited, said, output } = run(envOf({ VALKEY_URL: 'redis://user:pass-phrase@127.0.0.1:1' }));
    await said('waiting for Valkey at 127.0.0.1:1');
    child.kill('SIGINT');
    expect(await exited).toEqual({ code: 0, signal: null });
    expect(output()).not.toContain('pass-phrase');
  });

  test('delivers, and ends with 0 when told to stop', async () => {
    await startBackendOf();
    const { child, exited, said, output } = run(envOf());
    const told = backend.nextEnd();
    await said('the mail gateway takes messages');
    await send();
    expect(await told).toMatchObject({ result: { kind: 'sent' } });
    child.kill('SIGTERM');
    expect(await exited).toEqual({ code: 0, signal: null });
    expect(output()).not.toContain('ada@example.test');
  });

  test('ends with 0 within 10 s of a stop signal when Valkey died before', async () => {
    await startBackendOf();
    const own = await startValkey({ dataDir: join(folder, 'dying') });
    ends.push(() => own.stop());
    const { child, exited, said } = run(envOf({ VALKEY_URL: own.url }));
    await said('the mail gateway takes messages');
    own.kill('SIGKILL');
    await said('trouble with Valkey');
    const toldAtMs = performance.now();
    child.kill('SIGTERM');
    expect(await exited).toEqual({ code: 0, signal: null });
    expect(performance.now() - toldAtMs).toBeLessThan(10_000);
  });
});
