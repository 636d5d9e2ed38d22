/**
 * Puts values in the place of their placeholders, right before the bytes of one hop leave.
 * Every placeholder that stands in the hop is first held against the hop's origin: one that may not go there stops the hop, and no connection is
 * made. Each value is encoded for its place: percent-encoded in the URL (RFC 3986 §2.1), as it is in a header, as the inside of a JSON string in
 * a JSON body, form-encoded in a form (URL Standard), as it is in any other text. One pass: what a value brings is never taken for a placeholder.
 * The sentences name the secret and never its value.
 */
import { jsonEscaped, percentEncoded } from './encode-value.js';
import type { Hop } from './exchange.js';
import type { SecretValue } from './secret-value.js';

export type FilledHop =
  | { readonly kind: 'hop'; readonly hop: Hop }
  | { readonly kind: 'refused'; readonly code: 'secret_not_allowed' | 'request_invalid'; readonly message: string };

const HEADER_VALUE = /^[\t\x20-\x7e]*$/;

/** The hop as it goes out. It keeps method, origin and the names of its headers. */
export function fillSecrets(hop: Hop, secrets: readonly SecretValue[]): FilledHop {
  if (secrets.length === 0) return { kind: 'hop', hop };
  const body = hop.body === null ? '' : Buffer.from(hop.body).toString('utf8');
  const used = secrets.filter(({ placeholder }) => [hop.url.href, ...Object.values(hop.headers), body].some((text) => text.includes(placeholder)));
  if (used.length === 0) return { kind: 'hop', hop };
  const forbidden = used.find(({ origins }) => !origins.includes(hop.url.origin));
  if (forbidden !== undefined) {
    return { kind: 'refused', code: 'secret_not_allowed', message: `The secret "${forbidden.name}" may not go to ${hop.url.origin}` };
  }
  const fill = createFilling(used);

  const url = fillUrl(hop.url, fill);
  if (url === null) return invalid(used, 'would make another address');
  const headers: Record<string, string> = {};
  for (const [name, template] of Object.entries(hop.headers)) {
    headers[name] = fill(template, asItIs);
    if (!HEADER_VALUE.test(headers[name])) return invalid(used, `has a character that the header ${name} cannot carry`, template);
  }
  return {
    kind: 'hop',
    hop: { ...hop, url, headers, body: hop.body === null ? null : Buffer.from(fill(body, encodingOf(body, hop.headers['content-type'] ?? ''))) },
  };
}

type Encode = (value: string) => string;

function createFilling(secrets: readonly SecretValue[]): (text: string, encode: Encode) => string {
  const values = new Map(secrets.map(({ placeholder, value }) => [placeholder, value]));
  const any = new RegExp([...values.keys()].map((placeholder) => placeholder.replace(/[^A-Za-z0-9]/g, '\\$&')).join('|'), 'g');
  return (text, encode) => text.replace(any, (placeholder) => encode(values.get(placeholder) ?? ''));
}

/** Null when the address is read otherwise once filled: another origin, or a value that is a dot segment of the path. */
function fillUrl(url: URL, fill: (text: string, encode: Encode) => string): URL | null {
  const text = fill(url.href, percentEncoded);
  const filled = URL.canParse(text) ? new URL(text) : null;
  return filled !== null && filled.href === text && filled.origin === url.origin ? filled : null;
}

/** A body is JSON when its type says so, and also when it can be read as JSON: then every placeholder stands in a string. */
function encodingOf(body: string, contentType: string): Encode {
  const type = (contentType.split(';')[0] ?? '').trim().toLowerCase();
  if (type === 'application/x-www-form-urlencoded') return percentEncoded;
  return type === 'application/json' || type.endsWith('+json') || isJson(body) ? jsonEscaped : asItIs;
}

function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

const asItIs: Encode = (value) => value;

function invalid(used: readonly SecretValue[], what: string, place?: string): FilledHop {
  const names = used.filter(({ placeholder }) => place === undefined || place.includes(placeholder)).map(({ name }) => `"${name}"`);
  return { kind: 'refused', code: 'request_invalid', message: `The secret ${names.join(' or ')} ${what}` };
}
