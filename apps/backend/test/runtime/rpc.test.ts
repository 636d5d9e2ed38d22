import { connect } from 'node:net';
import { randomBytes } from 'node:crypto';
import { MAX_MESSAGE_BYTES, PATTERNS } from '@onward/contracts/frame';
import { RUNTIME_PATTERNS } from '@onward/contracts/patterns';
import { encodeMessage, MessageReader } from '@onward/wire/codec';
import { sign } from '@onward/wire/signing';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { rows } from '../../src/database/sql.js';
import { type BackendForTest, backendForTest } from '../backend-for-test.js';
import { HandWorker, line, publish, startRun, tag } from './hand-worker.js';

let onward: BackendForTest;
let worker: HandWorker;
let runId: string;
beforeAll(async () => {
  onward = await backendForTest({ AUTOMATIONS_SWEEP_INTERVAL_MS: '100000' });
  worker = new HandWorker(onward);
  ({ runId } = await startRun(onward, await publish(onward, line(tag('a')))));
});
afterAll(async () => {
  worker?.close();
  await onward?.close();
});

/** Sends messages as they are and gives the answers, or `closed` when the backend hangs up. */
function exchange(...messages: (object | Buffer)[]): Promise<unknown[] | 'closed'> {
  return new Promise((resolve, reject) => {
    const reader = new MessageReader();
    const answers: unknown[] = [];
    const socket = connect(onward.backend.rpcPort, '127.0.0.1', () => {
      for (const message of messages) socket.write(Buffer.isBuffer(message) ? message : encodeMessage(message));
    });
    socket.setTimeout(5_000, () => reject(new Error('no answer')));
    socket.on('error', () => resolve('closed'));
    socket.on('close', () => resolve('closed'));
    socket.on('data', (chunk) => {
      answers.push(...reader.push(chunk));
      if (answers.length < messages.length) return;
      resolve(answers);
      socket.destroy();
    });
  });
}

const secret = () => onward.settings.rpcSecrets[0];
const everything = () =>
  rows(onward.source, 'SELECT runs, attempts FROM runs LEFT JOIN attempts ON run_id = runs.id ORDER BY runs.id, attempts.seq, attempts.n');

describe.each([...Object.keys(RUNTIME_PATTERNS), 'mail.message.begin', 'mail.message.end'])('%s', (pattern) => {
  const body = () => JSON.stringify({ runId, claimId: runId, callId: 1, epoch: 1, seq: 1, messageId: runId, try: 1 });

  test('is refused before it is looked at without, with wrong, with expired and with replayed authentication', async () => {
    const before = await everything();
    const good = sign({ secret: secret(), pattern, body: body(), id: '1' }, Date.now());
    const wrong = sign({ secret: randomBytes(32).toString('hex'), pattern, body: body(), id: '2' }, Date.now());
    const expired = sign({ secret: secret(), pattern, body: body(), id: '3' }, Date.now() - 31_000);
    const forged = { ...good, id: '4', auth: { ...good.auth, mac: '0'.repeat(64) } };
    const replayed = await exchange(good, good);
    const answers = await exchange(wrong, expired, forged);
    const refusal = (id: string) => ({ id, error: expect.objectContaining({ code: 'unauthenticated' }) });
    expect(answers).toEqual([refusal('2'), refusal('3'), refusal('4')]);
    expect(replayed).toContainEqual(refusal('1'));
    expect(await exchange({ id: '5', pattern, body: body() })).toBe('closed');
    expect(await everything()).toEqual(before);
  });

  test('answers data of another shape with the name of the field', async () => {
    const [answer] = (await exchange(sign({ secret: secret(), pattern, body: '{"runId":7}', id: '1' }, Date.now()))) as [
      { error: { code: string; detail: string } },
    ];
    expect(answer.error).toMatchObject({ code: 'invalid', detail: expect.stringMatching(/Id|data/) });
  });
});

test('an unknown pattern, a body that is not JSON and one nested too deeply are answered with their codes', async () => {
  const send = (pattern: string, body: string) => exchange(sign({ secret: secret(), pattern, body, id: '1' }, Date.now()));
  expect(await send('automation.runtime.run.delete', '{}')).toMatchObject([{ error: { code: 'unknown_pattern' } }]);
  expect(await send('constructor', '{}')).toMatchObject([{ error: { code: 'unknown_pattern' } }]);
  expect(await send('automation.runtime.frame', '{')).toMatchObject([{ error: { code: 'malformed' } }]);
  expect(await send('automation.runtime.frame', '['.repeat(100_000))).toMatchObject([{ error: { code: 'malformed' } }]);
});

test('what is no message at all, or too large, ends the connection and nothing else', async () => {
  expect(await exchange(Buffer.from('GET / HTTP/1.1\r\n\r\n'))).toBe('closed');
  expect(await exchange(Buffer.from(`${MAX_MESSAGE_BYTES + 1}#{`))).toBe('closed');
  expect(await exchange(Buffer.from('12#{"id":"x"}xxx'))).toBe('closed');
  expect(await worker.call('prepare', { runId, claimId: runId, callId: 1 })).toEqual({ kind: 'refused', reason: 'stale_claim' });
});

test('a stranger is not kept, and neither is a message that never becomes whole', async () => {
  const hasEnded = (bytes: Buffer | null) =>
    new Promise<boolean>((resolve) => {
      const socket = connect(onward.backend.rpcPort, '127.0.0.1', () => {
        if (bytes) socket.write(bytes);
        vi.advanceTimersByTime(29_000);
        expect(socket.destroyed).toBe(false);
        setImmediate(() => setImmediate(() => vi.advanceTimersByTime(31_000)));
      });
      socket.on('error', () => undefined);
      socket.on('close', () => resolve(true));
    });
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
  try {
    expect(await hasEnded(null)).toBe(true);
    expect(await hasEnded(Buffer.from('4194304#{"a":"'))).toBe(true);
  } finally {
    vi.useRealTimers();
  }
});

test('there are 13 patterns, the frame, and the two of the gateway', () => {
  expect(Object.keys(RUNTIME_PATTERNS)).toHaveLength(13);
  expect(Object.keys(PATTERNS)).toHaveLength(16);
});

test('a handler that throws is `internal`, undoes only itself, and its reason stays in the log', async () => {
  const workflowId = await publish(onward, line(tag('a')));
  const { runId: broken } = await startRun(onward, workflowId);
  const ref = await worker.wakeUp(broken);
  await worker.frame(['prepare', { ...ref, callId: 1 }]);
  await onward.source.query('ALTER TABLE contact_tags RENAME TO hidden');
  const replies = await worker.frame(['create', { ...ref, epoch: 1, seq: 2 }], ['execute', { ...ref, epoch: 1, seq: 2 }]);
  await onward.source.query('ALTER TABLE hidden RENAME TO contact_tags');
  expect(replies).toEqual([
    { kind: 'attempt', seq: 2, n: 1, node: 'a', tally: { failed: 0, uncertain: 0 }, outcome: null },
    { kind: 'error', code: 'internal', detail: expect.not.stringContaining('contact_tags') },
  ]);
  expect(await worker.attempts(broken)).toMatchObject([{ node: 'start' }, { node: 'a', status: 'open' }]);
});

test('a draining backend refuses new calls, answers those in flight, and only then closes', async () => {
  const other = await backendForTest({ AUTOMATIONS_SWEEP_INTERVAL_MS: '100000' });
  const hand = new HandWorker(other);
  const { runId: slow } = await startRun(other, await publish(other, line(tag('a'))));
  const ref = await hand.wakeUp(slow);
  // A lock held by a test keeps the call in flight until it is let go.
  const runner = other.source.createQueryRunner();
  await runner.startTransaction();
  await runner.query('SELECT 1 FROM runs WHERE id = $1 FOR UPDATE', [slow]);
  const inFlight = hand.call('prepare', { ...ref, callId: 1 });
  await untilBlocked(other);
  const closing = other.close();
  const refused = await refusedWith(other);
  await runner.rollbackTransaction();
  await runner.release();
  expect(refused).toBe('draining');
  expect(await inFlight).toMatchObject({ kind: 'claimed' });
  hand.close();
  await closing;
});

async function untilBlocked({ source }: BackendForTest): Promise<void> {
  for (;;) {
    const blocked = await rows(source, `SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`);
    if (blocked.length > 0) return;
  }
}

async function refusedWith(other: BackendForTest): Promise<string> {
  const packet = sign({ secret: other.settings.rpcSecrets[0], pattern: 'automation.runtime.frame', body: '{"v":1,"runs":[]}', id: '1' }, Date.now());
  return new Promise((resolve) => {
    const reader = new MessageReader();
    const socket = connect(other.backend.rpcPort, '127.0.0.1', () => socket.write(encodeMessage(packet)));
    socket.on('data', (chunk) => {
      const [answer] = reader.push(chunk) as [{ error?: { code: string } }];
      resolve(answer.error?.code ?? 'answered');
      socket.destroy();
    });
    socket.on('error', () => resolve('closed'));
  });
}
