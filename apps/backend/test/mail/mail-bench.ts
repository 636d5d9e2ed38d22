import type { Outcome } from '@onward/contracts/outcome';
import type { RunState } from '@onward/contracts/patterns';
import { urlOfDatabase } from '@onward/stack/ensure-database';
import { Client } from 'pg';
import { inject } from 'vitest';
import { newId } from '../../src/database/new-id.js';
import { createDataSource } from '../../src/database/data-source.js';
import { type Outbox, transactAndTell } from '../../src/database/outbox.js';
import { change, rows, type Tx } from '../../src/database/sql.js';
import { EventBus, type EmittedEvent } from '../../src/events/event-bus.js';
import { Message, type MessageState } from '../../src/mail/message.entity.js';

export type RunRow = { state: RunState; resolution: Outcome | null; isDue: boolean; claimId: string };
export type MessageParts = { state?: MessageState; try?: number; resultTry?: number; uncertainTries?: number; isTransactional?: boolean; address?: string };

/**
 * The tables that mail touches, without the application around them: what a message does is decided by rows and locks alone. The database
 * is real and migrated; events and hints that would leave are collected.
 */
export async function mailBench() {
  const { postgresUrl, template } = inject('ground');
  const name = `onward_mail_${newId().replaceAll('-', '')}`;
  await onServer(postgresUrl, `CREATE DATABASE ${name} TEMPLATE ${template}`);
  const source = createDataSource(urlOfDatabase(postgresUrl, name), 10, () => undefined);
  await source.initialize();
  const bus = new EventBus();
  const emitted: EmittedEvent[] = [];
  bus.register({
    wants: async () => true,
    listenersOf: async () => ({
      want: () => true,
      dispatch: async (events) => (emitted.push(...events), events.map(() => [])),
      commit: () => Promise.reject(new Error('Mail commits nothing by an event')),
    }),
  });
  const told: Outbox[] = [];
  const teller = { tell: (outbox: Outbox) => void told.push(outbox), takes: () => true };

  const workflowId = newId();
  const versionId = newId();
  await change(source, `INSERT INTO workflows (id, name, draft, settings) VALUES ($1, 'Welcome', '{"nodes":[],"edges":[]}', '{}')`, [workflowId]);
  await change(source, `INSERT INTO workflow_versions (id, workflow_id, number, graph, settings, published_by) VALUES ($1, $2, 1, $3, '{}', 'test')`, [
    versionId,
    workflowId,
    JSON.stringify({ nodes: [{ id: 'mail_1', type: 'action', name: 'Say hello', config: {} }], edges: [] }),
  ]);

  return {
    source,
    bus,
    emitted,
    told,
    teller,
    workflowId,

    /** Runs work as the backend does: in a transaction, and what is to be told is told after the commit. */
    inTx<Result>(work: (tx: Tx) => Promise<Result>): Promise<Result> {
      return transactAndTell(source, teller, work);
    },

    async contact(email: string | null = `${newId()}@example.test`): Promise<string> {
      const id = newId();
      await change(source, 'INSERT INTO contacts (id, external_id, email) VALUES ($1, $2, $3)', [id, id, email]);
      return id;
    },

    async template(
      parts: { subject?: string; html?: string | null; text?: string | null; replyTo?: string | null; isTransactional?: boolean } = {},
    ): Promise<string> {
      const id = newId();
      const {
        subject = 'Hi {{ contact.attributes.name }}',
        html = '<p>{{ contact.attributes.name }}</p>',
        text = null,
        replyTo = null,
        isTransactional = false,
      } = parts;
      await change(source, 'INSERT INTO templates (id, name, subject, html, text, reply_to, is_transactional) VALUES ($1, $2, $3, $4, $5, $6, $7)', [
        id,
        `template ${id}`,
        subject,
        html,
        text,
        replyTo,
        isTransactional,
      ]);
      return id;
    },

    /** A run that stands on step 3; running unless another state is asked for. */
    async run(contactId: string | null, parts: { state?: RunState; waitKey?: string } = {}): Promise<string> {
      const id = newId();
      const { state = 'running', waitKey = null } = parts;
      const isOver = state === 'cancelled' || state === 'succeeded' || state === 'failed' || state === 'dead_lettered';
      await change(
        source,
        `INSERT INTO runs (id, workflow_id, version_id, contact_id, state, node, seq, claim_id, wait_key, wait_reason, due_at, lease_until, ended_at)
         VALUES ($1, $2, $3, $4, $5, 'mail_1', 3, $6, $7, $8, $9, $10, $11)`,
        [
          id,
          workflowId,
          versionId,
          contactId,
          state,
          newId(),
          waitKey,
          state === 'waiting' ? 'mail' : null,
          state === 'pending' || state === 'retrying' ? new Date() : null,
          state === 'running' ? new Date(Date.now() + 30_000) : null,
          isOver ? new Date() : null,
        ],
      );
      await change(source, `INSERT INTO run_contexts (run_id, context) VALUES ($1, '{"depth":1}')`, [id]);
      return id;
    },

    /** A message in any state, of a run that rests on it. */
    async message(parts: MessageParts = {}): Promise<{ id: string; runId: string; contactId: string; address: string }> {
      const id = newId();
      const address = parts.address ?? `${id}@example.test`;
      const contactId = await this.contact(address);
      const runId = await this.run(contactId, { state: 'waiting', waitKey: `mail:${id}` });
      const { state = 'prepared', resultTry = 0, uncertainTries = 0, isTransactional = false } = parts;
      await change(
        source,
        `INSERT INTO messages (id, run_id, seq, contact_id, is_transactional, state, try, result_try, uncertain_tries, begun_until, message_id_header,
                               from_mailbox, to_mailbox, subject, text)
         VALUES ($1, $2, 3, $3, $4, $5, $6, $7, $8, CASE WHEN $5 = 'begun' THEN clock_timestamp() + interval '90 s' END, $9, $10, $11, 'Hi', 'Hello')`,
        [
          id,
          runId,
          contactId,
          isTransactional,
          state,
          parts.try ?? 1,
          resultTry,
          uncertainTries,
          `<${id}@example.test>`,
          JSON.stringify({ name: 'Onward', address: 'onward@example.test' }),
          JSON.stringify({ name: '', address }),
        ],
      );
      return { id, runId, contactId, address };
    },

    readMessage(id: string): Promise<Message> {
      return source.manager.findOneByOrFail(Message, { id });
    },

    async readRun(id: string): Promise<RunRow> {
      const [run] = await rows<RunRow>(source, `SELECT state, resolution, due_at IS NOT NULL AS "isDue", claim_id AS "claimId" FROM runs WHERE id = $1`, [id]);
      if (!run) throw new Error('There is no such run');
      return run;
    },

    /** Resolves once so many of our connections wait for a lock. Asks the server again and again, which is how it is known. */
    async untilBlocked(count: number): Promise<void> {
      for (;;) {
        const [found] = await rows<{ blocked: number }>(
          source,
          `SELECT count(*)::int AS blocked FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`,
        );
        if ((found?.blocked ?? 0) >= count) return;
      }
    },

    async close(): Promise<void> {
      await source.destroy();
      await onServer(postgresUrl, `DROP DATABASE ${name}`);
    },
  };
}
export type MailBench = Awaited<ReturnType<typeof mailBench>>;

async function onServer(url: string, statement: string): Promise<void> {
  const client = new Client({ connectionString: url });
  await client.connect();
  try {
    await client.query(statement);
  } finally {
    await client.end();
  }
}
