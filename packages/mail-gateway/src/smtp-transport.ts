/**
 * The pool of SMTP connections, and the one thing it must know beyond what nodemailer tells: had the message begun to leave?
 *
 * When a connection breaks or runs out of time, nodemailer reports the same error in every phase. What parts the phases is the message
 * stream: it is first read after the server's 354 to DATA, so an error with an unread stream means that the server has
 * no byte of the message, and an error with a read one that it may have all of them (RFC 1047).
 *
 * A message whose reused connection turns out to be dead before DATA is moved to another connection by the pool itself.
 */
import type { Readable } from 'node:stream';
import { createTransport } from 'nodemailer';
import SMTPPool, { type SMTPPoolOptions } from 'nodemailer/lib/smtp-pool';

/** Reaching the server and its greeting, each, in ms. The whole exchange has its own deadline (hand-over.ts). */
const CONNECT_TIMEOUT_MS = 15_000;
/** Silence in the middle of an exchange, in ms: as long as the whole deadline, which comes first. */
const SILENCE_TIMEOUT_MS = 60_000;
/** A connection without work is given back after this, in ms; servers must wait 5 minutes (RFC 5321 §4.5.3.2.7). */
const IDLE_TIMEOUT_MS = 30_000;

const begun = new WeakSet<object>();

/** True when bytes of the message had left before the sending ended with this error. */
export function hadBegun(error: unknown): boolean {
  return typeof error === 'object' && error !== null && begun.has(error);
}

/** Watches the message streams of every sending and marks the error of one that had been read. */
class WatchingPool extends SMTPPool {
  override send(...[mail, callback]: Parameters<SMTPPool['send']>): boolean {
    const streams: Readable[] = [];
    const { message } = mail;
    const createReadStream = message.createReadStream.bind(message);
    message.createReadStream = (options) => {
      const stream = createReadStream(options);
      streams.push(stream);
      return stream;
    };
    const ended: typeof callback = (error, info) => {
      if (error && streams.some((stream) => stream.readableDidRead)) begun.add(error);
      callback(error, info);
    };
    return super.send(mail, ended);
  }
}

export type SmtpTransport = ReturnType<typeof openSmtpTransport>;

/** Connects to nothing yet. Parameters in the URL (`?requireTLS=true`) win over what is set here. */
export function openSmtpTransport(url: string, { connections }: { connections: number }) {
  const options: SMTPPoolOptions = {
    url,
    pool: true,
    maxConnections: connections,
    connectionTimeout: CONNECT_TIMEOUT_MS,
    greetingTimeout: CONNECT_TIMEOUT_MS,
    dnsTimeout: CONNECT_TIMEOUT_MS,
    socketTimeout: SILENCE_TIMEOUT_MS,
    idleTimeout: IDLE_TIMEOUT_MS,
  };
  return createTransport(new WatchingPool(options), { disableFileAccess: true, disableUrlAccess: true });
}
