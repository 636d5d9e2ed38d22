/**
 * Which mail addresses are handed to SMTP: the plain form of RFC 5321 §4.1.2 only, a dot-atom at a domain.
 *
 * Quoted local parts, comments, groups, address literals and anything with a blank, a line break, a comma or an angle bracket are
 * refused, so an address can never be read as two, nor end a command. A domain in letters of another script is
 * written in its ASCII form (RFC 5891); a local part of other letters would need SMTPUTF8 (RFC 6531) and is refused.
 *
 * Not promised: that the mailbox exists.
 */
import { domainToASCII } from 'node:url';

const LOCAL_PART = /^[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+(?:\.[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+)*$/;
const WRITTEN_DOMAIN = /^[\p{L}\p{M}\p{N}.-]+$/u;
const LABEL = /^[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?$/i;
/** No top-level domain is all digits (RFC 3696 §2); a number would be an IP address in disguise. */
const NUMBER = /^[0-9]+$/;
const MAX_ADDRESS_CHARACTERS = 254;
const MAX_LOCAL_PART_CHARACTERS = 64;

/** The address as it goes to the mail server, or null when it cannot be used. */
export function readAddress(text: string): string | null {
  const at = text.lastIndexOf('@');
  if (at < 1) return null;
  const localPart = text.slice(0, at);
  const written = text.slice(at + 1);
  if (localPart.length > MAX_LOCAL_PART_CHARACTERS || !LOCAL_PART.test(localPart) || !WRITTEN_DOMAIN.test(written)) return null;
  const domain = domainToASCII(written);
  const address = `${localPart}@${domain}`;
  const labels = domain.split('.');
  const isDomain = labels.every((label) => LABEL.test(label)) && !NUMBER.test(labels.at(-1) ?? '');
  return isDomain && address.length <= MAX_ADDRESS_CHARACTERS ? address : null;
}
