/**
 * Hands one finished message to the mail server and says what came of it. Never throws.
 *
 * - `sent`: the server took responsibility (a 2yz reply to the end of the data, RFC 5321 §4.2.5).
 * - `failed`: it did not, and the message is nowhere. `smtp_permanent` after a 5yz reply to sender, recipient or message; `smtp_retryable`
 *   after any other refusal, or when no byte of the message had left; `address_invalid` or `config_invalid` before anything was dialled.
 * - `uncertain`: the connection broke or time ran out after the message had begun to leave (RFC 1047).
 *
 * One message has one recipient, which is named to the server explicitly and never derived from a header.
 */
import { FAILURES, type FailureCode } from '@onward/contracts/errors';
import { type MailResult, type PreparedMessage, SMTP_DEADLINE_MS } from '@onward/contracts/mail';
import type { NodemailerError } from 'nodemailer';
import { readAddress } from './mail-address.js';
import { type SmtpTransport, hadBegun } from './smtp-transport.js';

/** A refusal of this sender, recipient or message. One at the greeting, EHLO or AUTH is about us and says nothing of the message. */
const OF_THE_MESSAGE: ReadonlySet<string> = new Set(['EENVELOPE', 'EMESSAGE']);
const MAX_RESPONSE_CHARACTERS = 1_000;

/** `signal` ends the exchange early; `deadlineMs` bounds all of it, connecting included. */
export async function handOver(
  transport: SmtpTransport,
  message: PreparedMessage,
  { signal, deadlineMs = SMTP_DEADLINE_MS }: { signal?: AbortSignal; deadlineMs?: number } = {},
): Promise<MailResult> {
  const [from, to, replyTo] = [readAddress(message.from.address), readAddress(message.to.address), message.replyTo && readAddress(message.replyTo.address)];
  if (to === null) return failed('address_invalid', 'The address of the recipient cannot be used');
  if (from === null) return failed('config_invalid', 'The address of the sender cannot be used');
  if (message.replyTo && !replyTo) return failed('config_invalid', 'The address for replies cannot be used');

  const limit = limitOf(deadlineMs, signal);
  try {
    const { response } = await transport.sendMail({
      from: { name: message.from.name, address: from },
      to: { name: message.to.name, address: to },
      ...(message.replyTo && replyTo ? { replyTo: { name: message.replyTo.name, address: replyTo } } : {}),
      envelope: { from, to },
      messageId: message.messageIdHeader,
      subject: message.subject,
      text: message.text ?? (message.html === null ? '' : undefined),
      html: message.html ?? undefined,
      disableFileAccess: true,
      disableUrlAccess: true,
      signal: limit.signal,
    });
    return { kind: 'sent', response: response.slice(0, MAX_RESPONSE_CHARACTERS), at: new Date().toISOString() };
  } catch (error) {
    return resultOf(error, limit.reason());
  } finally {
    limit.release();
  }
}

/** What an error of the sending means. A reply of the server decides; without one, whether the message had begun to leave. */
function resultOf(error: unknown, interruption: string | null): MailResult {
  const { responseCode, response, code, message } = readError(error);
  const why = interruption ?? message;
  if (responseCode >= 500 && responseCode < 600 && OF_THE_MESSAGE.has(code)) return failed('smtp_permanent', `The mail server refused: ${response}`);
  if (responseCode >= 400 && responseCode < 600) return failed('smtp_retryable', `The mail server refused for now: ${response}`);
  if (hadBegun(error))
    return { kind: 'uncertain', failure: failureOf('mail_uncertain', `The exchange broke off after the message had begun to leave: ${why}`) };
  // Refused before the server was asked. A reply that cannot be read comes under the same code and says nothing of the address.
  if (code === 'EENVELOPE' && response === '') return failed('address_invalid', message);
  return failed('smtp_retryable', `The message did not leave: ${why}`);
}

function readError(error: unknown): { responseCode: number; response: string; code: string; message: string } {
  if (!(error instanceof Error)) return { responseCode: 0, response: '', code: '', message: String(error) };
  const { responseCode, response, code, message }: Partial<NodemailerError> = error;
  return { responseCode: responseCode ?? 0, response: response ?? '', code: code ?? '', message };
}

function failed(code: FailureCode, message: string): MailResult {
  return { kind: 'failed', failure: failureOf(code, message) };
}

function failureOf(code: FailureCode, message: string) {
  return { code, message: (message || FAILURES[code].title).slice(0, MAX_RESPONSE_CHARACTERS) };
}

/** One signal for the deadline and the caller's own, and the words for whichever came first. */
function limitOf(deadlineMs: number, signal: AbortSignal | undefined): { signal: AbortSignal; reason: () => string | null; release: () => void } {
  const limit = new AbortController();
  let reason: string | null = null;
  const end = (why: string) => {
    reason ??= why;
    limit.abort();
  };
  const stop = () => end('the gateway was stopped');
  const timer = setTimeout(() => end(`the exchange was not done within ${deadlineMs} ms`), deadlineMs);
  if (signal?.aborted) stop();
  else signal?.addEventListener('abort', stop);
  return {
    signal: limit.signal,
    reason: () => reason,
    release: () => {
      clearTimeout(timer);
      signal?.removeEventListener('abort', stop);
    },
  };
}
