import { domainToASCII } from 'node:url';

/** RFC 5321 §4.5.3.1: octets of the local part, and of an address that still fits a path. */
const MAX_LOCAL = 64;
const MAX_ADDRESS = 254;

/** RFC 5322 §3.2.3 dot-atom, ASCII only: no quotes, no blanks, no dot at an end, no two in a row. */
const LOCAL = /^[a-z0-9!#$%&'*+/=?^_`{|}~-]+(?:\.[a-z0-9!#$%&'*+/=?^_`{|}~-]+)*$/i;
/** What is handed to the IDNA mapping: letters, marks, digits, hyphens and dots of any script, so that it can conjure nothing else up. */
const DOMAIN_AS_WRITTEN = /^[\p{L}\p{M}\p{N}-]+(?:\.[\p{L}\p{M}\p{N}-]+)+$/u;
/** RFC 1035 §2.3.1 labels, at least two, the last with a letter (RFC 3696 §2): no host name without a domain, no IP address. */
const DOMAIN = /^(?:[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?\.)+(?=[a-z0-9-]*[a-z])[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?$/;

/**
 * The address a text is, in the one form it is kept in: lower case, its domain in ASCII (IDNA, RFC 5891), or null when it is none.
 * Stricter than the standards: what would be legal but is nearly always an attack or a slip (quoted local parts, comments, address
 * literals, names without a dot, non-ASCII local parts, blanks around) is refused. Says nothing of whether somebody reads it.
 */
export function readEmailAddress(text: string): string | null {
  if (text.length > 2 * MAX_ADDRESS) return null;
  const at = text.lastIndexOf('@');
  const local = text.slice(0, Math.max(at, 0));
  const writtenDomain = text.slice(at + 1);
  if (local.length > MAX_LOCAL || !LOCAL.test(local) || !DOMAIN_AS_WRITTEN.test(writtenDomain)) return null;
  const domain = domainToASCII(writtenDomain.normalize('NFC').toLowerCase());
  const address = `${local.toLowerCase()}@${domain}`;
  return DOMAIN.test(domain) && address.length <= MAX_ADDRESS ? address : null;
}
