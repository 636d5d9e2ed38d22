/**
 * The request that a redirect asks for.
 * 307 and 308 keep method and body; 301, 302 and 303 become GET without a body (HEAD stays HEAD). From https to http is refused. When scheme, host or
 * port changes, only the headers of a short list go along: whatever else was configured may be a credential of the first target. What was dropped
 * does not come back when a later hop returns to the first origin. The address is judged by whoever sends the hop.
 * Source: RFC 9110 §15.4; Fetch standard, "HTTP-redirect fetch".
 */
import type { Hop } from './exchange.js';

/** `Idempotency-Key` goes along: a POST that is replayed elsewhere must not lose its protection against a second effect, and the key opens nothing. */
const KEPT_ON_ORIGIN_CHANGE: ReadonlySet<string> = new Set([
  'accept',
  'accept-encoding',
  'accept-language',
  'content-type',
  'content-language',
  'idempotency-key',
  'user-agent',
]);

const BODY_HEADERS: ReadonlySet<string> = new Set(['content-type', 'content-language', 'content-encoding', 'content-location', 'digest', 'content-digest']);

export type NextHop = { readonly kind: 'hop'; readonly hop: Hop } | { readonly kind: 'refused'; readonly why: string };

/** True for a status that names another place in Location and can be followed. */
export function isRedirect(status: number): boolean {
  return status === 301 || status === 302 || status === 303 || status === 307 || status === 308;
}

/** `location` is the header as received and may be relative. `hop.url` of the answer has not been judged. */
export function nextHop(hop: Hop, status: number, location: string): NextHop {
  if (!URL.canParse(location, hop.url.href)) return { kind: 'refused', why: 'its Location cannot be read' };
  const url = new URL(location, hop.url);
  if (hop.url.protocol === 'https:' && url.protocol === 'http:') return { kind: 'refused', why: 'it leads from https to http' };
  const keepsBody = status === 307 || status === 308;
  const headers = Object.entries(hop.headers).filter(
    ([name]) => (keepsBody || !BODY_HEADERS.has(name)) && (url.origin === hop.url.origin || KEPT_ON_ORIGIN_CHANGE.has(name)),
  );
  const method = keepsBody || hop.method === 'HEAD' ? hop.method : 'GET';
  return { kind: 'hop', hop: { method, url, headers: Object.fromEntries(headers), body: keepsBody ? hop.body : null } };
}
