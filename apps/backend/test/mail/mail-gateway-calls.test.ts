import { randomUUID } from 'node:crypto';
import { MAIL_RESULTS_QUEUE, MESSAGE_RESULT, QUEUE_PREFIX } from '@onward/contracts/queues';
import type { MessageResult } from '@onward/contracts/mail';
import { BackendClient } from '@onward/wire/client';
import { Queue, QueueEvents } from 'bullmq';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { newId } from '../../src/database/new-id.js';
import { change, rows } from '../../src/database/sql.js';
import { Message } from '../../src/mail/message.entity.js';
import { type BackendForTest, backendForTest } from '../backend-for-test.js';

let backend: BackendForTest;
let client: BackendClient;
beforeAll(async () => {
  backend = await backendForTest();
  client = new BackendClient({ host: '127.0.0.1', port: backend.backend.rpcPort, secret: backend.settings.rpcSecrets[0] });
});
afterAll(async () => {
  client.close();
  await backend.close();
});

const SENT = { kind: 'sent', response: '250 ok', at: '2026-04-01T09:00:00Z' } as const;

/** A message of no run, of which the queue was told just now. */
async function message(): Promise<string> {
  const id = newId();
  await change(
    backend.source,
    `INSERT INTO messages (id, is_transactional, woken_at, message_id_header, from_mailbox, to_mailbox, subject, text)
     VALUES ($1, false, now() + interval '1 h', '<x@example.test>', '{"name":"","address":"onward@example.test"}', '{"name":"","address":"ada@example.test"}', 'Hi', 'Hello')`,
    [id],
  );
  return id;
}

const stateOf = async (id: string) => (await backend.source.manager.findOneByOrFail(Message, { id })).state;

describe('the mail gateway', () => {
  it('begins a message and stores its result over the wire', async () => {
    const messageId = await message();
    expect(await client.call('mail.message.begin', { messageId, try: 1, callId: randomUUID() })).toMatchObject({
      kind: 'send',
      message: { messageId, subject: 'Hi' },
    });
    expect(await client.call('mail.message.begin', { messageId, try: 1, callId: randomUUID() })).toEqual({ kind: 'already', state: 'begun' });
    expect(await client.call('mail.message.end', { messageId, try: 1, result: SENT })).toEqual({ kind: 'stored' });
    expect(await client.call('mail.message.end', { messageId, try: 1, result: SENT })).toEqual({ kind: 'already', state: 'sent' });
  });

  it('gets its answer though the connections to the database break before it asks', async () => {
    const messageId = await message();
    await backend.source.transaction(async (tx) => {
      await rows(tx, 'SELECT 1 FROM messages WHERE id = $1 FOR UPDATE', [messageId]);
      await rows(tx, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()`);
    });
    expect((await client.call('mail.message.begin', { messageId, try: 1, callId: randomUUID() })).kind).toBe('send');
  });

  it('announces a result on mail-results, which is stored when nobody has stored it yet', async () => {
    const connection = { url: backend.valkeyUrl };
    const queue = new Queue<MessageResult>(MAIL_RESULTS_QUEUE, { connection, prefix: QUEUE_PREFIX });
    const events = new QueueEvents(MAIL_RESULTS_QUEUE, { connection, prefix: QUEUE_PREFIX });
    try {
      await events.waitUntilReady();
      const messageId = await message();
      await client.call('mail.message.begin', { messageId, try: 1, callId: randomUUID() });
      const job = await queue.add(MESSAGE_RESULT, { messageId, try: 1, result: SENT }, { jobId: `${messageId}-1` });
      await job.waitUntilFinished(events);
      expect(await stateOf(messageId)).toBe('sent');
    } finally {
      await Promise.all([queue.close(), events.close()]);
    }
  });
});
