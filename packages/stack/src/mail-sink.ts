/**
 * An SMTP server that delivers nothing: it records every message, byte for byte with its envelope, and shows them.
 *
 * For people it is an inbox on a page; for tests it can misbehave in the ways mail servers do (see MailSinkMode). A message
 * counts as received once its last byte is here, before any answer. Loopback only, no TLS, no authentication.
 */
import { once, setMaxListeners } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import { setTimeout as pause } from 'node:timers/promises';
import { SMTPServer, type SMTPServerSession } from 'smtp-server';
import { freePort } from './free-port.js';
import { answerInboxRequest } from './inbox-page.js';
import { createLatch } from './latch.js';
import type { MailSinkMode, MailSinkRule } from './mail-sink-mode.js';
import { openMailStore, type SinkMessage } from './mail-store.js';
import type { Link } from './page.js';
import { createWatchedList } from './watched-list.js';

export type { MailSinkMode, MailSinkRule } from './mail-sink-mode.js';
export type { SinkMessage } from './mail-store.js';

export type RefusedRecipient = { readonly at: string; readonly from: string; readonly address: string; readonly code: number };

export type MailSink = {
  readonly smtpUrl: string;
  readonly inboxUrl: string;
  messages(): readonly SinkMessage[];
  refusedRecipients(): readonly RefusedRecipient[];
  /** Resolves with all messages once the predicate holds of them; throws after `timeoutMs` (default 10 s). */
  waitFor(predicate: (messages: readonly SinkMessage[]) => boolean, timeoutMs?: number): Promise<readonly SinkMessage[]>;
  /** How it behaves from now on. */
  mode(next: MailSinkMode | MailSinkRule): void;
  /** Answers what is held and goes back to accepting. */
  release(): void;
  /** Forgets everything, on disk as well. */
  clear(): void;
  stop(): Promise<void>;
};

export type MailSinkOptions = {
  /** Wanted ports; a taken one gives the next free one. */
  readonly smtpPort?: number;
  readonly httpPort?: number;
  /** Where messages outlive the process; without it they do not. */
  readonly storeFile?: string;
  /** Further pages to link from the inbox. */
  readonly links?: readonly Link[];
};

const ACCEPT: MailSinkMode = { kind: 'accept' };
const HOST = '127.0.0.1';

export async function startMailSink({ smtpPort, httpPort, storeFile, links = [] }: MailSinkOptions = {}): Promise<MailSink> {
  const store = openMailStore(storeFile);
  const refused = createWatchedList<RefusedRecipient>([], 'refused recipients');
  const sockets = new Map<number, Socket>();
  let rule: MailSinkRule = () => ACCEPT;
  let held = createLatch();
  const stopping = new AbortController();
  setMaxListeners(0, stopping.signal); // one for each answer that is late or held

  const release = (): void => {
    rule = () => ACCEPT;
    held.open();
    held = createLatch();
  };
  const mode = (next: MailSinkMode | MailSinkRule): void => {
    rule = typeof next === 'function' ? next : () => next;
  };

  const smtp = new SMTPServer({
    name: 'sink.onward.test',
    banner: 'Onward mail sink: records, delivers nothing',
    disabledCommands: ['AUTH', 'STARTTLS'],
    disableReverseLookup: true,
    authOptional: true,
    logger: false,
    socketTimeout: 10 * 60 * 1_000,
    closeTimeout: 1,
    onRcptTo({ address }, session, callback) {
      const from = senderOf(session);
      const decided = rule({ stage: 'recipient', from, to: [...recipientsOf(session), address], nth: store.all().length + 1 });
      if (decided.kind !== 'refuse_recipient' || (decided.address ?? address) !== address) return callback();
      refused.add({ at: new Date().toISOString(), from, address, code: decided.code });
      callback(smtpError(decided.code, 'recipient refused by the sink'));
    },
    onData(stream, session, callback) {
      const chunks: Buffer[] = [];
      stream.on('data', (chunk: Buffer) => chunks.push(chunk));
      stream.once('end', () => {
        const envelope = { from: senderOf(session), to: recipientsOf(session) };
        const decided = rule({ stage: 'data', ...envelope, nth: store.all().length + 1 });
        const message = store.receive(envelope, Buffer.concat(chunks));
        const accept = (): void => {
          if (sockets.get(session.remotePort)?.destroyed !== false) return store.answer(message, 'dropped');
          store.answer(message, 'accepted');
          callback(null, `recorded as ${message.id}`);
        };
        switch (decided.kind) {
          case 'accept':
          case 'refuse_recipient':
            return accept();
          case 'refuse_data':
            store.answer(message, 'refused');
            return callback(smtpError(decided.code, 'message refused by the sink'));
          case 'drop':
            store.answer(message, 'dropped');
            return void sockets.get(session.remotePort)?.destroy();
          case 'late':
            return void pause(decided.delayMs, undefined, { signal: stopping.signal }).then(accept, () => undefined);
          case 'hold':
            return void held.opened.then(accept);
          default:
            return decided satisfies never;
        }
      });
    },
  });
  smtp.on('error', () => {}); // a connection that breaks is its sender's business and must not end the sink
  smtp.server.on('connection', (socket: Socket) => {
    const port = socket.remotePort;
    if (port === undefined) return;
    sockets.set(port, socket);
    socket.once('close', () => {
      if (sockets.get(port) === socket) sockets.delete(port);
    });
  });

  const inbox = createServer((request, response) => void answerInboxRequest(request, response, { store, mode, release, links }));
  smtp.server.listen({ port: await freePort(smtpPort), host: HOST });
  inbox.listen({ port: await freePort(httpPort), host: HOST });
  for (const server of [smtp.server, inbox]) if (!server.listening) await once(server, 'listening');

  return {
    smtpUrl: `smtp://${HOST}:${(smtp.server.address() as AddressInfo).port}`,
    inboxUrl: `http://${HOST}:${(inbox.address() as AddressInfo).port}`,
    messages: () => store.all(),
    refusedRecipients: () => refused.all(),
    waitFor: (predicate, timeoutMs) => store.waitFor(predicate, timeoutMs),
    mode,
    release,
    clear: () => {
      store.clear();
      refused.clear();
    },
    stop: async () => {
      stopping.abort();
      for (const socket of sockets.values()) socket.destroy();
      inbox.closeAllConnections();
      await Promise.all([new Promise<void>((resolve) => smtp.close(() => resolve())), new Promise<void>((resolve) => inbox.close(() => resolve()))]);
    },
  };
}

function senderOf({ envelope }: SMTPServerSession): string {
  return envelope.mailFrom === false ? '' : envelope.mailFrom.address;
}

function recipientsOf({ envelope }: SMTPServerSession): string[] {
  return envelope.rcptTo.map(({ address }) => address);
}

function smtpError(responseCode: number, message: string): Error {
  return Object.assign(new Error(message), { responseCode });
}
