/**
 * What the mail sink received, in memory and, when a file is named, on disk.
 *
 * One JSON line a message, written before the sender hears 250, so a message that was acknowledged is never missing; a
 * last line cut by a crash is passed over. The body is kept byte for byte.
 */
import { randomUUID } from 'node:crypto';
import { appendFileSync, existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { type ParsedMail, simpleParser } from 'mailparser';
import { createWatchedList, type WatchedList } from './watched-list.js';

/** `pending`: no answer given yet; `dropped`: the connection was cut instead of an answer. */
export type MailAnswer = 'pending' | 'accepted' | 'refused' | 'dropped';

export type SinkMessage = {
  readonly id: string;
  /** UTC, ISO 8601. */
  readonly receivedAt: string;
  /** The envelope, as said in MAIL FROM and RCPT TO; `from` is empty for the null sender. */
  readonly from: string;
  readonly to: readonly string[];
  /** The message as sent, after dot-unstuffing (RFC 5321 §4.5.2). */
  readonly raw: Buffer;
  readonly answer: MailAnswer;
  /** Headers and parts, decoded. Parsed once. */
  parse(): Promise<ParsedMail>;
};

type Kept = { readonly id: string; readonly receivedAt: string; readonly from: string; readonly to: readonly string[]; readonly raw: string };
type StoredMessage = SinkMessage & { answer: MailAnswer };

export type MailStore = WatchedList<SinkMessage> & {
  receive(envelope: { readonly from: string; readonly to: readonly string[] }, raw: Buffer): SinkMessage;
  answer(message: SinkMessage, answer: MailAnswer): void;
};

export function openMailStore(file: string | undefined): MailStore {
  const list = createWatchedList<SinkMessage>(file === undefined ? [] : readKept(file), 'messages');
  return {
    ...list,
    clear: () => {
      if (file !== undefined) rmSync(file, { force: true });
      list.clear();
    },
    receive: (envelope, raw) => {
      const message = toMessage({ id: randomUUID(), receivedAt: new Date().toISOString(), ...envelope }, raw, 'pending');
      if (file !== undefined) keep(file, message);
      list.add(message);
      return message;
    },
    answer: (message, answer) => {
      (message as StoredMessage).answer = answer;
      list.touch();
    },
  };
}

function toMessage(facts: Pick<SinkMessage, 'id' | 'receivedAt' | 'from' | 'to'>, raw: Buffer, answer: MailAnswer): StoredMessage {
  let parsed: Promise<ParsedMail> | undefined;
  return { ...facts, raw, answer, parse: () => (parsed ??= simpleParser(raw)) };
}

function keep(file: string, { id, receivedAt, from, to, raw }: SinkMessage): void {
  appendFileSync(file, `${JSON.stringify({ id, receivedAt, from, to, raw: raw.toString('base64') } satisfies Kept)}\n`, { mode: 0o600 });
}

function readKept(file: string): SinkMessage[] {
  if (!existsSync(file)) return [];
  const text = readFileSync(file, 'utf8');
  if (text !== '' && !text.endsWith('\n')) writeFileSync(file, text.slice(0, text.lastIndexOf('\n') + 1)); // so that the next line begins a line
  return text.split('\n').flatMap((line) => {
    try {
      const { id, receivedAt, from, to, raw } = JSON.parse(line) as Kept;
      return [toMessage({ id, receivedAt, from, to }, Buffer.from(raw, 'base64'), 'accepted')];
    } catch {
      return [];
    }
  });
}
