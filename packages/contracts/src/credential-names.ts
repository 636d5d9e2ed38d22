import type { Json } from './json.js';

/**
 * What names a credential, and how what stands under such a name is shown: in the history, in events, in notices and in logs. What is
 * stored is not changed, since a later step may need it.
 */
export const MASKED = '[masked]';

/** Without separators, an `X-` before it and in lower case, the end of such a name is one of these, or the name is one of the second list. */
const ENDS =
  /(?:authorization|cookies?|passw(?:or)?d|passphrase|passcode|secrets?|secretkey|tokens?|apikeys?|accesskey|authkey|privatekey|signingkey|credentials?)$/;
const NAMES: ReadonlySet<string> = new Set(['auth', 'pwd', 'bearer', 'sessionid', 'jwt']);

/** `Set-Cookie`, `access_token`, `apiKey`, `clientSecret` are; `secretary`, `tokenCount`, `key` are not. */
export function isCredentialName(name: string): boolean {
  const plain = name
    .replace(/^x[-_]/i, '')
    .replace(/[^A-Za-z0-9]/g, '')
    .toLowerCase();
  return ENDS.test(plain) || NAMES.has(plain);
}

/** The same data with every text, number, list and object under such a name shown as `[masked]`, at any depth, also in a text's URLs. */
export function maskCredentials<Value>(value: Value): Value {
  return masked(value) as Value;
}

/** The same for a text alone: values of a URL's query under such a name, and user names and passwords in a URL. */
export function maskCredentialsInText(text: string): string {
  if (!text.includes('=') && !text.includes('@')) return text;
  return text
    .replace(/\b([a-z][a-z0-9+.-]{1,20}:\/\/)[^\s/?#@"'<>]+@/gi, `$1${MASKED}@`)
    .replace(/([?&;])([^\s=&?#;"'<>]{1,100})=([^\s&#"'<>]+)/g, (whole, before: string, name: string) =>
      isCredentialName(decoded(name)) ? `${before}${name}=${MASKED}` : whole,
    );
}

function masked(value: unknown): unknown {
  if (typeof value === 'string') return maskCredentialsInText(value);
  if (Array.isArray(value)) return value.map(masked);
  if (!isPlain(value)) return value;
  // fromEntries makes own properties, also of a name such as "__proto__".
  return Object.fromEntries(Object.entries(value).map(([name, member]) => [name, isCredentialName(name) && isTelling(name, member) ? MASKED : masked(member)]));
}

/** Null, true and false say no credential, and whether there is one is worth knowing; a number of `tokens` is a count. */
function isTelling(name: string, member: unknown): boolean {
  if (typeof member === 'number') return !name.endsWith('s');
  return member !== null && member !== undefined && typeof member !== 'boolean';
}

/** Dates, errors and the like stay as they are. */
function isPlain(value: unknown): value is { [name: string]: Json } {
  if (typeof value !== 'object' || value === null) return false;
  const prototype: unknown = Object.getPrototypeOf(value);
  return prototype === Object.prototype || prototype === null;
}

function decoded(name: string): string {
  try {
    return decodeURIComponent(name);
  } catch {
    return name;
  }
}
