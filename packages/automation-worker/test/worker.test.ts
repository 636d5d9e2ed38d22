/**
 * The worker as a process, built, on a real Valkey of its own, which some tests wipe or stop. The backend is scripted, on TCP; the targets
 * are real HTTP servers.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { AUTOMATIONS_QUEUE, EXECUTE_RUN, QUEUE_PREFIX, type WakeUp } from '@onward/contracts/queues';
import { freePort } from '@onward/stack/free-port';
import { startValkey, type ValkeyServer } from '@onward/stack/valkey';
import { type JobsOptions, Queue, QueueEvents } from 'bullmq';
import { Redis } from 'ioredis';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { type Backend, claimed, internal, isRenewal, refused, rests, type Script, SECRET, startBackend } from './backend.js';
import { newWakeUp } from './parts.js';
import { startWire, type Wire } from './swallowing-wire.js';
import { startTarget, type Target } from './target.js';

const MAIN = fileURLToPath(new URL('../dist/main.js', import.meta.url));
const TAKES = 'the worker takes wake-ups';

const PREPARE = 'automation.runtime.run.prepare';
const EXECUTE = 'automation.runtime.action.execute';
const UPDATE = 'automation.runtime.attempt.update';
const ADVANCE = 'automation.runtime.run.advance';
const WAIT = 'automation.runtime.run.wait';
const RETRY = 'automation.runtime.run.retry';

let folder: string;
let valkey: ValkeyServer;
let redis: Redis;
const ends: (() => unknown)[] = [];

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'automation-worker-'));
  valkey = await startValkey({ dataDir: join(folder, 'valkey') });
  redis = new Redis(valkey.url);
});

afterAll(async () => {
  redis?.disconnect();
  await valkey?.stop();
  rmSync(folder, { recursive: true, force: true });
});

beforeEach(() => redis.flushall());

afterEach(async () => {
  for (const end of ends.splice(0).reverse()) await end();
});

async function startBackendOf(script: Script = {}, options: { port?: number } = {}): Promise<Backend> {
  const backend = await startBackend(script, options);
  ends.push(backend.close);
  return backend;
}

async function startTargetOf(options: Parameters<typeof startTarget>[0] = {}): Promise<Target> {
  const target = await startTarget(options);
  ends.push(target.close);
  return target;
}

type Process = { child: ChildProcess; exited: Promise<{ code: number | null; signal: string | null }>; output(): string; said(text: string): Promise<void> };

/** Runs the built worker; `said` resolves when its output holds the text. */
function run(env: Record<string, string>): Process {
  const child = spawn(process.execPath, [MAIN], { env: { PATH: process.env['PATH'] ?? '', ...env }, stdio: ['ignore', 'pipe', 'pipe'] });
  let output = '';
  const waiting = new Set<{ text: string; resolve: () => void }>();
  const take = (chunk: Buffer) => {
    output += chunk.toString();
    for (const waiter of waiting) if (output.includes(waiter.text)) waiter.resolve();
  };
  child.stdout.on('data', take);
  child.stderr.on('data', take);
  const exited = once(child, 'close').then(([code, signal]) => ({ code, signal }) as { code: number | null; signal: string | null });
  ends.push(async () => {
    child.kill('SIGKILL');
    await exited;
  });
  return {
    child,
    exited,
    output: () => output,
    said: (text) => new Promise((resolve) => (output.includes(text) ? resolve() : waiting.add({ text, resolve }))),
  };
}

function envOf(backend: { port: number }, over: Record<string, string> = {}): Record<string, string> {
  return { VALKEY_URL: valkey.url, BACKEND_MICROSERVICE_TARGET_PORT: String(backend.port), BACKEND_MICROSERVICE_SECRET: SECRET, ...over };
}

async function start(backend: Backend, over: Record<string, string> = {}): Promise<Process> {
  const worker = run(envOf(backend, over));
  await worker.said(TAKES);
  return worker;
}

function queueOf(url = valkey.url): Queue {
  const queue = new Queue(AUTOMATIONS_QUEUE, { prefix: QUEUE_PREFIX, connection: { url, maxRetriesPerRequest: 1 } });
  queue.on('error', () => undefined);
  ends.push(() => queue.close());
  return queue;
}

async function wake(wakeUp: WakeUp, { url = valkey.url, ...options }: JobsOptions & { url?: string } = {}): Promise<void> {
  await queueOf(url).add(EXECUTE_RUN, wakeUp, { jobId: wakeUp.claimId, ...options });
}

async function stop({ child, exited }: Process): Promise<void> {
  child.kill('SIGTERM');
  expect(await exited).toEqual({ code: 0, signal: null });
}

/** What was logged as a warning or worse, or printed beside the log. */
function troubles(output: string): string[] {
  return output
    .split('\n')
    .filter((line) => line !== '')
    .filter((line) => !line.startsWith('{') || (JSON.parse(line) as { level: number }).level >= 40);
}

const sending = (target: Target): Script => ({ [EXECUTE]: () => ({ reply: { kind: 'send', request: target.request, target: target.limits } }) });
const of = ({ runId }: WakeUp) => ({
  prepares: (backend: Backend) => backend.of(PREPARE).filter(({ data }) => data['runId'] === runId),
});

describe('a worker that is started first', () => {
  test('waits and says for what: the backend, then Valkey', async () => {
    const ports = { backend: await freePort(), valkey: await freePort() };
    const worker = run(envOf({ port: ports.backend }, { VALKEY_URL: `redis://127.0.0.1:${ports.valkey}` }));
    await Promise.all([worker.said(`waiting for the backend at 127.0.0.1:${ports.backend}`), worker.said(`waiting for Valkey at 127.0.0.1:${ports.valkey}`)]);
    const backend = await startBackendOf({}, { port: ports.backend });
    expect(worker.output()).not.toContain(TAKES);
    const late = await startValkey({ dataDir: join(folder, 'late'), port: ports.valkey });
    ends.push(() => late.stop());
    await worker.said(TAKES);
    await wake(newWakeUp(), { url: late.url });
    await backend.until(ADVANCE);
    expect(worker.output()).not.toContain(SECRET);
  }, 60_000);

  test('takes the wake-ups that lay there before', async () => {
    const wakeUp = newWakeUp();
    await wake(wakeUp);
    const backend = await startBackendOf();
    await start(backend);
    expect((await backend.until(ADVANCE)).data).toMatchObject(wakeUp);
  });

  test.each(['SIGTERM', 'SIGINT'] as const)('ends with 0 at once when it is told to by %s while it waits', async (signal) => {
    const port = await freePort();
    const { child, exited, said, output } = run(envOf({ port }, { VALKEY_URL: 'redis://user:pass-phrase@127.0.0.1:1' }));
    await Promise.all([said('waiting for the backend'), said('waiting for Valkey')]);
    child.kill(signal);
    expect(await exited).toEqual({ code: 0, signal: null });
    expect(output()).not.toContain('pass-phrase');
  });
});

describe('the settings', () => {
  test('that are missing or wrong are each named, without their values, and the process ends with 1', async () => {
    const { exited, output } = run({
      VALKEY_URL: 'http://:hidden@nowhere',
      BACKEND_MICROSERVICE_TARGET_PORT: '70000',
      BACKEND_MICROSERVICE_SECRET: 'too short',
      AUTOMATIONS_BACKEND_RPC_TIMEOUT_MS: 'soon',
      AUTOMATIONS_LEASE_MS: '1',
      AUTOMATIONS_WORKER_CONCURRENCY: 'many',
      AUTOMATIONS_BREAKER_RESET_MS: 'never',
      LOG_LEVEL: 'loud',
    });
    expect(await exited).toEqual({ code: 1, signal: null });
    const named = output().match(/[A-Z]+(_[A-Z]+)+/g);
    expect(named).toEqual([
      'VALKEY_URL',
      'BACKEND_MICROSERVICE_TARGET_PORT',
      'BACKEND_MICROSERVICE_SECRET',
      'AUTOMATIONS_BACKEND_RPC_TIMEOUT_MS',
      'AUTOMATIONS_LEASE_MS',
      'AUTOMATIONS_WORKER_CONCURRENCY',
      'AUTOMATIONS_BREAKER_RESET_MS',
      'LOG_LEVEL',
    ]);
    expect(output()).not.toMatch(/hidden|70000|too short|soon|many|never|loud/);
  });

  test('that are missing altogether or empty are named too', async () => {
    const { exited, output } = run({ VALKEY_URL: '' });
    expect((await exited).code).toBe(1);
    expect(output()).toMatch(/VALKEY_URL is missing/);
    expect(output()).toMatch(/BACKEND_MICROSERVICE_SECRET is missing/);
  });

  test('of the egress that cannot be read are named', async () => {
    const { exited, output } = run({ VALKEY_URL: valkey.url, BACKEND_MICROSERVICE_SECRET: SECRET, EGRESS_ALLOW: 'not a host' });
    expect((await exited).code).toBe(1);
    expect(output()).toContain('EGRESS_ALLOW');
  });
});

describe('a job of the queue', () => {
  test('drives its run to rest, and nothing of it stays behind', async () => {
    const target = await startTargetOf();
    const backend = await startBackendOf(sending(target));
    const worker = await start(backend, { EGRESS_ALLOW: target.allowed });
    const wakeUp = newWakeUp();
    await wake(wakeUp);
    await backend.until(ADVANCE);
    expect(target.received.map(({ body }) => body)).toEqual([target.request.body]);
    expect(backend.of(UPDATE)[0]?.data).toMatchObject({ ...wakeUp, outcome: { kind: 'done', output: { status: 200 } } });
    await stop(worker);
    expect(await redis.keys(`*${wakeUp.claimId}*`)).toEqual([]);
    expect(troubles(worker.output())).toEqual([]);
  });

  test('that names no run is dropped, and the next one is taken', async () => {
    const backend = await startBackendOf();
    const worker = await start(backend);
    await wake({ runId: 'x', claimId: 'y' });
    const wakeUp = newWakeUp();
    await wake(wakeUp);
    expect((await backend.until(PREPARE)).data).toMatchObject(wakeUp);
    await worker.said('a job names no run and is dropped');
  });

  test('that comes early is delayed until its run is due, and comes again', async () => {
    const inMs = 400;
    const answeredAtMs: number[] = [];
    const backend = await startBackendOf({
      [PREPARE]: ({ nth }) => {
        answeredAtMs.push(Date.now());
        return nth === 1 ? { reply: { kind: 'not_due', dueAt: new Date(Date.now() + inMs).toISOString(), inMs } } : claimed();
      },
    });
    const events = new QueueEvents(AUTOMATIONS_QUEUE, { prefix: QUEUE_PREFIX, connection: { url: valkey.url, maxRetriesPerRequest: null } });
    ends.push(() => events.close());
    await events.waitUntilReady();
    const delayed = new Promise<{ jobId: string; delay: number }>((resolve) => events.on('delayed', resolve));
    const worker = await start(backend, { LOG_LEVEL: 'debug' });
    const wakeUp = newWakeUp();
    await wake(wakeUp);
    const { jobId, delay } = await delayed;
    expect(jobId).toBe(wakeUp.claimId);
    expect(Number(delay) - (answeredAtMs[0] ?? 0)).toBeGreaterThanOrEqual(inMs);
    await backend.until(ADVANCE);
    expect((answeredAtMs[1] ?? 0) - (answeredAtMs[0] ?? 0)).toBeGreaterThanOrEqual(inMs);
    const [first, second] = of(wakeUp).prepares(backend);
    expect(Number(second?.data['callId'])).toBeGreaterThan(Number(first?.data['callId']));
    expect(second?.data['handOutId']).not.toBe(first?.data['handOutId']);
    await stop(worker);
    expect(worker.output()).not.toContain('the lock of a job was lost');
    expect(troubles(worker.output())).toEqual([]);
  });

  test('that throws is handed out again, with a higher number and as another hand-out', async () => {
    const backend = await startBackendOf({ [UPDATE]: ({ nth }) => (nth === 1 ? internal : { reply: { kind: 'recorded', verb: 'advance' } }) });
    const worker = await start(backend);
    const wakeUp = newWakeUp();
    await wake(wakeUp, { attempts: 5, backoff: { type: 'fixed', delay: 50 } });
    await backend.until(ADVANCE);
    const [first, second, ...more] = of(wakeUp).prepares(backend);
    expect(more).toEqual([]);
    expect([first?.data['callId'], second?.data['callId']]).toEqual([1, 2]);
    expect(second?.data['handOutId']).not.toBe(first?.data['handOutId']);
    await worker.said('a run could not be driven to rest; its job is handed out again');
  });

  test('whose frame is sent again over another connection is the same hand-out', async () => {
    const backend = await startBackendOf({ frame: () => (backend.work().length === 1 ? 'cut' : undefined) });
    await start(backend);
    const wakeUp = newWakeUp();
    await wake(wakeUp);
    await backend.until(ADVANCE);
    const [first, again] = backend.work();
    expect(again?.connection).not.toBe(first?.connection);
    expect(again?.frame.runs[0]?.items[0]).toEqual(first?.frame.runs[0]?.items[0]);
    expect(again?.frame.runs[0]?.items[0]?.data).toMatchObject({ ...wakeUp, callId: 1, handOutId: expect.any(String) });
  });
});

describe('a target that fails', () => {
  test('is left alone from the fifth failure on: its runs are told to wait for it, and the renewals tell of it', async () => {
    const target = await startTargetOf({ answer: (response) => void response.writeHead(500).end() });
    const backend = await startBackendOf(sending(target));
    const worker = await start(backend, { EGRESS_ALLOW: target.allowed, AUTOMATIONS_LEASE_MS: '600' });
    for (let nth = 1; nth <= 6; nth++) {
      await wake(newWakeUp());
      await backend.until(UPDATE, (asked) => asked.nth === nth);
    }
    expect(target.received.length).toBe(5);
    const outcomes = backend.of(UPDATE).map(({ data }) => data['outcome']);
    expect(outcomes.slice(0, 5)).toMatchObject(Array(5).fill({ kind: 'failed', failure: { code: 'http_retryable' } }));
    expect(outcomes[5]).toMatchObject({ kind: 'not_sent', blocked: { origin: target.limits.origin, by: 'breaker', breakerNo: 0 } });
    expect(backend.work().at(-1)?.patterns).toEqual([UPDATE, WAIT]);
    const renewal = await backend.untilFrame(({ frame }) => frame.worker?.targets[0]?.breaker === 'open');
    expect(renewal.frame.worker?.targets).toMatchObject([{ origin: target.limits.origin, breakerNo: 0, sending: 0, queued: 0 }]);
    await stop(worker);
  });
});

describe('the lease of a run in hand', () => {
  test('is renewed over a connection of its own while another call is not answered', async () => {
    const backend = await startBackendOf({ frame: ({ patterns }) => (patterns[0] === UPDATE ? 'silent' : undefined) });
    await start(backend, { AUTOMATIONS_LEASE_MS: '600' });
    const wakeUp = newWakeUp();
    await wake(wakeUp);
    const stuck = await backend.untilFrame(({ patterns }) => patterns[0] === UPDATE);
    const renewal = await backend.nextRenewal();
    await backend.nextRenewal();
    expect(renewal.frame).toMatchObject({ worker: { inFlight: 1 }, runs: [{ items: [{ data: { ...wakeUp, epoch: 1, renew: true } }] }] });
    expect(new Set(backend.frames.filter(isRenewal).map(({ connection }) => connection)).has(stuck.connection)).toBe(false);
  });

  test('is refused when somebody else has the run: the send in flight ends, and its end is told', async () => {
    const target = await startTargetOf({ answersAtOnce: false });
    let isTaken = false;
    const backend = await startBackendOf({
      ...sending(target),
      renew: () => (isTaken ? refused('stale_epoch') : { reply: { kind: 'renewed', leaseMs: 600 } }),
      [UPDATE]: () => refused('stale_epoch'),
    });
    const worker = await start(backend, { AUTOMATIONS_LEASE_MS: '600', EGRESS_ALLOW: target.allowed });
    await wake(newWakeUp());
    const { closed } = await target.nth(1);
    isTaken = true;
    await closed;
    expect((await backend.until(UPDATE)).data).toMatchObject({ outcome: { kind: 'uncertain', failure: { code: 'process_died' } } });
    while ((await backend.nextRenewal()).frame.runs.length > 0);
    await stop(worker);
  });
});

describe('a job whose lock is lost while its run is driven', () => {
  /** A worker whose locks are renewed every 200 ms, with a send in flight. */
  async function startWithASendInFlight(script: Script = {}) {
    const target = await startTargetOf({ answersAtOnce: false });
    const backend = await startBackendOf({ ...sending(target), ...script });
    const worker = await start(backend, { AUTOMATIONS_LEASE_MS: '600', EGRESS_ALLOW: target.allowed, LOG_LEVEL: 'debug' });
    const wakeUp = newWakeUp();
    await wake(wakeUp);
    const { response } = await target.nth(1);
    return { backend, worker, wakeUp, target, answer: () => response.writeHead(204).end() };
  }

  test('because Valkey was wiped ends nothing and prints no error, and the next job is taken', async () => {
    const { backend, worker, wakeUp, answer, target } = await startWithASendInFlight();
    await redis.flushall();
    await worker.said('the lock of a job was lost');
    answer();
    expect((await backend.until(UPDATE)).data).toMatchObject({ ...wakeUp, outcome: { kind: 'done', output: { status: 204 } } });
    await backend.until(ADVANCE);
    expect(of(wakeUp).prepares(backend)).toHaveLength(1);
    const next = newWakeUp();
    await wake(next);
    (await target.nth(2)).response.writeHead(204).end();
    await backend.until(ADVANCE, ({ data }) => data['runId'] === next.runId);
    await stop(worker);
    expect(troubles(worker.output())).toEqual([]);
  });

  test('because its lock was deleted ends nothing and prints no error: the other hand-out is refused, and the send goes on', async () => {
    const { backend, worker, wakeUp, answer, target } = await startWithASendInFlight({
      [PREPARE]: ({ data }) => (data['callId'] === 1 ? claimed() : rests('running')),
    });
    const locks = await redis.keys(`*${wakeUp.claimId}:lock`);
    expect(locks).toHaveLength(1);
    await redis.del(...locks);
    // The queue takes it for stalled and hands it out again, to the same worker.
    const again = await backend.until(PREPARE, ({ data }) => Number(data['callId']) > 1);
    expect(again.data).toMatchObject(wakeUp);
    await worker.said('the lock of a job was lost');
    answer();
    expect((await backend.until(UPDATE)).data).toMatchObject({ ...wakeUp, outcome: { kind: 'done', output: { status: 204 } } });
    await backend.until(ADVANCE);
    await stop(worker);
    expect(target.received).toHaveLength(1);
    expect(backend.of(UPDATE)).toHaveLength(1);
    expect(troubles(worker.output())).toEqual([]);
  });
});

describe('a queue that has gone silent', () => {
  async function startDeafening(backend: Backend, over: Record<string, string> = {}): Promise<{ worker: Process; wire: Wire }> {
    const wire = await startWire(valkey.url);
    ends.push(wire.close);
    const worker = await start(backend, { VALKEY_URL: wire.url, AUTOMATIONS_SILENT_QUEUE_MS: '2000', ...over });
    const first = newWakeUp();
    await wake(first);
    await backend.until(PREPARE, ({ data }) => data['runId'] === first.runId);
    return { worker, wire };
  }

  test('is listened to over new connections, and what waits is taken', async () => {
    const backend = await startBackendOf();
    const { worker, wire } = await startDeafening(backend);
    wire.swallowPresent();
    const wakeUp = newWakeUp();
    await wake(wakeUp);
    await backend.until(PREPARE, ({ data }) => data['runId'] === wakeUp.runId);
    expect(worker.output()).toContain('the queue is listened to over new connections');
    await stop(worker);
  }, 60_000);

  test('over new connections too ends the process with 1, after it has given its runs back', async () => {
    const target = await startTargetOf({ answersAtOnce: false });
    const backend = await startBackendOf({ ...sending(target), [ADVANCE]: () => ({ reply: { kind: 'advanced', seq: 2, node: 'node-2' } }) });
    const { worker, wire } = await startDeafening(backend, { EGRESS_ALLOW: target.allowed });
    const { response } = await target.nth(1);
    wire.swallowPresent();
    wire.swallowListeners();
    await wake(newWakeUp());
    await worker.said('stopping: no new wake-ups are taken');
    expect(worker.output()).toContain('over new connections neither');
    response.writeHead(204).end();
    expect(await worker.exited).toEqual({ code: 1, signal: null });
    expect(backend.work().at(-1)?.patterns).toEqual([UPDATE, ADVANCE, WAIT]);
    expect(backend.of(PREPARE)).toHaveLength(1);
  }, 90_000);

  test('because nothing is there to do is left alone', async () => {
    const backend = await startBackendOf();
    const { worker } = await startDeafening(backend, { AUTOMATIONS_SILENT_QUEUE_MS: '1000' });
    await new Promise((resolve) => setTimeout(resolve, 4_000));
    expect(troubles(worker.output())).toEqual([]);
    await stop(worker);
  }, 60_000);
});

describe('a worker whose backend is slow', () => {
  /** The first frame of work takes six seconds, which makes more than one second of the worker's average. */
  const slowAtFirst = (): NonNullable<Script['frame']> => {
    let frames = 0;
    return async (asked) => {
      if (!isRenewal(asked)) frames += 1;
      if (frames === 1 && !isRenewal(asked)) await new Promise((resolve) => setTimeout(resolve, 6_000));
      return undefined;
    };
  };

  test('begins no other run while it has one in hand, and records what that came to all the same', async () => {
    const target = await startTargetOf({ answersAtOnce: false });
    const backend = await startBackendOf({ ...sending(target), frame: slowAtFirst(), renew: () => ({ reply: { kind: 'renewed', leaseMs: 30_000 } }) });
    await start(backend, { EGRESS_ALLOW: target.allowed, AUTOMATIONS_WORKER_CONCURRENCY: '8', AUTOMATIONS_LEASE_MS: '3000' });
    const [first, second] = [newWakeUp(), newWakeUp()];
    await wake(first);
    const { response } = await target.nth(1);
    await wake(second);
    const queue = queueOf();
    await expect.poll(() => queue.getActiveCount(), { timeout: 30_000 }).toBe(2);
    await backend.nextRenewal();
    await backend.nextRenewal();
    expect(of(second).prepares(backend)).toEqual([]);
    response.writeHead(204).end();
    await backend.until(PREPARE, ({ data }) => data['runId'] === second.runId);
    const told = (pattern: string, { runId }: WakeUp) => backend.calls.findIndex((asked) => asked.pattern === pattern && asked.data['runId'] === runId);
    expect(told(UPDATE, first)).toBeGreaterThan(0);
    expect(told(UPDATE, first)).toBeLessThan(told(PREPARE, second));
  }, 60_000);

  test('gives back what it has not begun when it is told to stop', async () => {
    const target = await startTargetOf({ answersAtOnce: false });
    const backend = await startBackendOf({ ...sending(target), frame: slowAtFirst() });
    const worker = await start(backend, { EGRESS_ALLOW: target.allowed, AUTOMATIONS_WORKER_CONCURRENCY: '8' });
    const second = newWakeUp();
    await wake(newWakeUp());
    const { response } = await target.nth(1);
    await wake(second);
    const queue = queueOf();
    await expect.poll(() => queue.getActiveCount(), { timeout: 30_000 }).toBe(2);
    worker.child.kill('SIGTERM');
    await worker.said('stopping: no new wake-ups are taken');
    response.writeHead(204).end();
    expect(await worker.exited).toEqual({ code: 0, signal: null });
    expect(of(second).prepares(backend)).toEqual([]);
    expect(await queue.getActiveCount()).toBe(0);
    expect(await queue.getJob(second.claimId)).toBeDefined();
    expect(troubles(worker.output())).toEqual([]);
  }, 60_000);
});

describe('a worker that is told to stop', () => {
  test('lets the send in flight end, gives its run back, takes no new job, and ends with 0', async () => {
    const target = await startTargetOf({ answersAtOnce: false });
    const backend = await startBackendOf({ ...sending(target), [ADVANCE]: () => ({ reply: { kind: 'advanced', seq: 2, node: 'node-2' } }) });
    const worker = await start(backend, { EGRESS_ALLOW: target.allowed });
    const [wakeUp, other] = [newWakeUp(), newWakeUp()];
    await wake(wakeUp);
    const { response } = await target.nth(1);
    worker.child.kill('SIGTERM');
    await worker.said('stopping: no new wake-ups are taken');
    await wake(other);
    response.writeHead(204).end();
    expect(await worker.exited).toEqual({ code: 0, signal: null });
    expect(backend.of(UPDATE).map(({ data }) => data['outcome'])).toMatchObject([{ kind: 'done', output: { status: 204 } }]);
    expect(backend.work().at(-1)?.patterns).toEqual([UPDATE, ADVANCE, WAIT]);
    expect(backend.of(WAIT).map(({ data }) => data)).toEqual([{ ...wakeUp, release: 'stopping' }]);
    expect(of(other).prepares(backend)).toEqual([]);
    expect(await queueOf().getWaitingCount()).toBe(1);
    expect(troubles(worker.output())).toEqual([]);
  });

  test('sends nothing for a run it was just handed, and gives it back', async () => {
    const target = await startTargetOf();
    let claim = () => {};
    const mayClaim = new Promise<void>((resolve) => {
      claim = resolve;
    });
    const backend = await startBackendOf({ ...sending(target), [PREPARE]: () => mayClaim.then(() => claimed()) });
    const worker = await start(backend, { EGRESS_ALLOW: target.allowed });
    const wakeUp = newWakeUp();
    await wake(wakeUp);
    await backend.until(PREPARE);
    worker.child.kill('SIGTERM');
    await worker.said('stopping: no new wake-ups are taken');
    claim();
    expect(await worker.exited).toEqual({ code: 0, signal: null });
    expect(target.connections()).toBe(0);
    expect(backend.of(UPDATE).map(({ data }) => data['outcome'])).toEqual([{ kind: 'not_sent', why: 'the worker is stopping' }]);
    expect(backend.of(WAIT)).toHaveLength(1);
  });

  test('sends nothing that waits for its target, and lets what is in flight end', async () => {
    const target = await startTargetOf({ answersAtOnce: false });
    const backend = await startBackendOf({ ...sending(target), renew: () => ({ reply: { kind: 'renewed', leaseMs: 600 } }) });
    const env = { EGRESS_ALLOW: target.allowed, AUTOMATIONS_LEASE_MS: '600', AUTOMATIONS_WORKER_CONCURRENCY: '4' };
    const worker = await start(backend, env);
    await Promise.all([wake(newWakeUp()), wake(newWakeUp()), wake(newWakeUp())]);
    const { response } = await target.nth(1);
    await backend.untilFrame(({ frame }) => frame.worker?.targets[0]?.queued === 2);
    worker.child.kill('SIGTERM');
    await backend.until(UPDATE, ({ nth }) => nth === 2);
    expect(backend.of(UPDATE).map(({ data }) => data['outcome'])).toEqual(Array(2).fill({ kind: 'not_sent', why: 'the worker is stopping' }));
    response.writeHead(204).end();
    expect(await worker.exited).toEqual({ code: 0, signal: null });
    expect(backend.of(UPDATE)[2]?.data).toMatchObject({ outcome: { kind: 'done' } });
    expect(target.received.length).toBe(1);
    expect(troubles(worker.output())).toEqual([]);
  });

  test('twice ends at once', async () => {
    const target = await startTargetOf({ answersAtOnce: false });
    const backend = await startBackendOf(sending(target));
    const worker = await start(backend, { EGRESS_ALLOW: target.allowed });
    await wake(newWakeUp());
    await target.nth(1);
    worker.child.kill('SIGTERM');
    await worker.said('stopping: no new wake-ups are taken');
    worker.child.kill('SIGTERM');
    expect(await worker.exited).toEqual({ code: 1, signal: null });
    expect(backend.of(UPDATE)).toEqual([]);
  });

  test('ends with 0 within 20 s when Valkey has died: a send without end is cut and told as uncertain', async () => {
    const own = await startValkey({ dataDir: join(folder, `dying-${randomUUID()}`) });
    ends.push(() => own.stop());
    const target = await startTargetOf({ answersAtOnce: false });
    const backend = await startBackendOf(sending(target));
    const worker = await start(backend, { EGRESS_ALLOW: target.allowed, VALKEY_URL: own.url });
    await wake(newWakeUp(), { url: own.url });
    await target.nth(1);
    own.kill('SIGKILL');
    await worker.said('trouble with Valkey');
    const toldAtMs = performance.now();
    worker.child.kill('SIGTERM');
    expect(await worker.exited).toEqual({ code: 0, signal: null });
    expect(performance.now() - toldAtMs).toBeLessThan(20_000);
    expect(backend.of(UPDATE).map(({ data }) => data['outcome'])).toMatchObject([{ kind: 'uncertain' }]);
    expect(backend.of(RETRY)).toHaveLength(1);
  }, 60_000);

  test('ends with 0 within 20 s when both Valkey and the backend have died', async () => {
    const own = await startValkey({ dataDir: join(folder, `dying-${randomUUID()}`) });
    ends.push(() => own.stop());
    const target = await startTargetOf({ answersAtOnce: false });
    const backend = await startBackendOf(sending(target));
    const worker = await start(backend, { EGRESS_ALLOW: target.allowed, VALKEY_URL: own.url });
    await wake(newWakeUp(), { url: own.url });
    await target.nth(1);
    own.kill('SIGKILL');
    await backend.close();
    await Promise.all([worker.said('trouble with Valkey'), worker.said('the backend cannot be reached')]);
    const toldAtMs = performance.now();
    worker.child.kill('SIGTERM');
    expect(await worker.exited).toEqual({ code: 0, signal: null });
    expect(performance.now() - toldAtMs).toBeLessThan(20_000);
  }, 60_000);
});
