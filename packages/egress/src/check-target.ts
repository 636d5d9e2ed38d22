/**
 * Reads a URL and refuses, before any name is resolved, what can be told from the text: other schemes, user names and passwords in the URL,
 * address literals and names that are not allowed. Names that pass are judged again by the addresses they resolve to (guarded-pool.ts).
 * Everything is compared after `new URL`, which turns `2130706433`, `0x7f.1`, `①②⑦.⓪.⓪.①` and the like into what would be dialled.
 * The sentences carry the host and never the path, the query or the user part: those may hold secrets.
 */
import { judgeAddress } from './address-guard.js';
import { type AllowList, isHostListed, isPortListed, normaliseHost } from './allow-list.js';
import { isHostNeverAllowed } from './never-allowed.js';
import { parseAddress } from './parse-address.js';
import { isPortRefused } from './refused-ports.js';

export type Target =
  | { readonly kind: 'target'; readonly url: URL }
  | { readonly kind: 'refused'; readonly code: 'address_not_allowed' | 'request_invalid'; readonly message: string };

/** The URL to dial, or why not. */
export function checkTarget(text: string, allow: AllowList): Target {
  if (!URL.canParse(text)) return { kind: 'refused', code: 'request_invalid', message: 'The URL cannot be read' };
  const url = new URL(text);
  if (url.protocol !== 'http:' && url.protocol !== 'https:') return notAllowed(`the scheme ${url.protocol} is not http or https`);
  if (url.username !== '' || url.password !== '') {
    return { kind: 'refused', code: 'request_invalid', message: 'The URL carries a user name or password; use the Authorization header' };
  }
  const why = whyNot(normaliseHost(url.hostname), portOf(url), allow);
  return why === null ? { kind: 'target', url } : notAllowed(why);
}

/** The port a URL of http or https dials. */
export function portOf(url: URL): number {
  if (url.port !== '') return Number(url.port);
  return url.protocol === 'https:' ? 443 : 80;
}

function whyNot(host: string, port: number, allow: AllowList): string | null {
  const bytes = parseAddress(host);
  if (bytes !== null) {
    const verdict = judgeAddress(bytes, port, allow, null);
    return verdict.allowed ? null : `${host} is refused: ${verdict.why}`;
  }
  if (isHostNeverAllowed(host)) return `${host} is a metadata service, which can never be allowed`;
  if (isHostListed(allow, host, port)) return null;
  // RFC 6761 §6.3: these names are loopback wherever they are resolved, so an allow-list has to name them.
  if (host === 'localhost' || host.endsWith('.localhost')) return `${host} is this machine; only an allow-list entry with this name opens it`;
  return isPortRefused(port) && !isPortListed(allow, port) ? `port ${port} is not for HTTP` : null;
}

function notAllowed(why: string): Target {
  return { kind: 'refused', code: 'address_not_allowed', message: `Address not allowed: ${why}` };
}
