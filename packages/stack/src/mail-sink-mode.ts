/** The ways a mail server behaves that the mail sink can play, and how a program asks for one over HTTP. */

export type MailSinkMode =
  | { readonly kind: 'accept' }
  /** RCPT TO is answered with the code (550, 451, …): for one address, or for all. */
  | { readonly kind: 'refuse_recipient'; readonly code: number; readonly address?: string }
  /** The message is recorded and then refused with the code. */
  | { readonly kind: 'refuse_data'; readonly code: number }
  /** The message is recorded, then the connection is cut before 250: the sender cannot know. */
  | { readonly kind: 'drop' }
  /** The message is recorded and accepted `delayMs` later. */
  | { readonly kind: 'late'; readonly delayMs: number }
  /** The message is recorded and accepted when `release` is called. */
  | { readonly kind: 'hold' };

/** Decides for each message (or recipient, when `stage` says so). `nth` counts messages received, from 1. */
export type MailSinkRule = (about: {
  readonly stage: 'recipient' | 'data';
  readonly from: string;
  readonly to: readonly string[];
  readonly nth: number;
}) => MailSinkMode;

/** A mode from parsed JSON; undefined when it is none. Codes are SMTP replies from 400 to 599. */
export function readMailSinkMode(value: unknown): MailSinkMode | undefined {
  if (typeof value !== 'object' || value === null) return undefined;
  const { kind, code, delayMs, address } = value as Record<string, unknown>;
  const hasCode = typeof code === 'number' && code >= 400 && code <= 599;
  if (kind === 'accept' || kind === 'drop' || kind === 'hold') return { kind };
  if (kind === 'late' && typeof delayMs === 'number' && delayMs >= 0) return { kind, delayMs };
  if (kind === 'refuse_data' && hasCode) return { kind, code };
  if (kind === 'refuse_recipient' && hasCode) return typeof address === 'string' ? { kind, code, address } : { kind, code };
  return undefined;
}
