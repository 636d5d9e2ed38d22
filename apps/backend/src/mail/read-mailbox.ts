import { domainToASCII } from 'node:url';
import type { Mailbox } from './message.entity.js';

/**
 * Reads one mailbox as people write it (RFC 5322 §3.4): `post@example.org`, `Name <post@example.org>` or `"Name, Inc." <post@example.org>`.
 * Meant for senders and reply addresses, which an operator chooses: a host without a dot is fine. Recipients are held to the stricter
 * rule of contacts/email-address.ts. Answers null for anything that is not exactly one mailbox, line breaks and controls included.
 */
export function readMailbox(written: string): Mailbox | null {
  const text = written.trim();
  if (text.length > 500 || /\p{Cc}|\p{Zl}|\p{Zp}/u.test(text)) return null;
  const named = /^(.*?)\s*<([^<>]*)>$/u.exec(text);
  const name = named ? unquote(named[1] ?? '') : '';
  if (name === null || /[<>]/.test(name)) return null;
  const address = readAddress((named ? named[2] : text) ?? '');
  return address === null ? null : { name, address };
}

/** The sender of this installation, as MAIL_FROM names it. Throws when that is no mailbox, which is to stop the start. */
export function senderOf(mailFrom: string): Mailbox {
  const sender = readMailbox(mailFrom);
  if (sender === null) throw new Error('MAIL_FROM is not a mail address such as "Onward <onward@example.org>"');
  return sender;
}

/** The domain of a mailbox, as it ends a Message-ID. */
export function domainOf({ address }: Mailbox): string {
  return address.slice(address.lastIndexOf('@') + 1);
}

/** A dot-atom at a domain (RFC 5322 §3.4.1), the domain in its ASCII form. */
function readAddress(text: string): string | null {
  const match = /^([A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+(?:\.[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+)*)@([\p{L}\p{M}\p{N}.-]+)$/u.exec(text);
  if (!match || text.length > 254) return null;
  const domain = domainToASCII(match[2] ?? '');
  return /^[a-z0-9-]+(\.[a-z0-9-]+)*$/i.test(domain) ? `${match[1]}@${domain}` : null;
}

/** The text of a quoted display name, or the name as it stands. Null when a quote is left open. */
function unquote(name: string): string | null {
  const quoted = /^"((?:[^"\\]|\\.)*)"$/u.exec(name);
  if (quoted) return (quoted[1] ?? '').replace(/\\(.)/gu, '$1');
  return name.includes('"') ? null : name;
}
