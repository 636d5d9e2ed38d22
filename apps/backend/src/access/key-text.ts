import { createHash, randomBytes } from 'node:crypto';

const PREFIX = 'onw_';
/** `onw_` and 32 random bytes in base64url (RFC 4648 §5). */
const KEY = /^onw_[A-Za-z0-9_-]{43}$/;

/** A new key. Shown once and kept only as its hash; the prefix tells keys apart in a list. */
export function mintKeyText(): { key: string; prefix: string; hash: Buffer } {
  const key = `${PREFIX}${randomBytes(32).toString('base64url')}`;
  return { key, prefix: key.slice(0, PREFIX.length + 6), hash: hashOfKey(key) };
}

export function hashOfKey(key: string): Buffer {
  return createHash('sha256').update(key).digest();
}

/**
 * The key that an Authorization header brings: `Bearer <key>` (RFC 6750 §2.1), or, for browsers, Basic with the key as password
 * (RFC 7617; the name does not matter). Null when there is none or it has not the form of a key.
 */
export function keyOfHeader(header: string | undefined, accepts: 'bearer' | 'bearer or basic'): string | null {
  const [, scheme = '', credentials = ''] = /^([A-Za-z]+) +([^ ]+) *$/.exec(header ?? '') ?? [];
  const key = readCredentials(scheme.toLowerCase(), credentials, accepts);
  return key !== null && KEY.test(key) ? key : null;
}

function readCredentials(scheme: string, credentials: string, accepts: 'bearer' | 'bearer or basic'): string | null {
  if (scheme === 'bearer') return credentials;
  if (scheme !== 'basic' || accepts === 'bearer') return null;
  const pair = Buffer.from(credentials, 'base64').toString();
  const colon = pair.indexOf(':');
  return colon === -1 ? null : pair.slice(colon + 1);
}
