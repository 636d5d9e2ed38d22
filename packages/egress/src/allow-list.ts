/**
 * The operator's allow-list (EGRESS_ALLOW): the targets inside the network that requests may reach although the guard refuses them.
 * Grammar, comma-separated: `host[:port]`, `ip[:port]`, `cidr[:port]`, IPv6 in brackets (`[fd00::1]:8080`, `[fd00::/8]`). A host entry opens exactly that
 * name, whatever it resolves to; an address or CIDR entry opens the addresses, by whatever name they are reached.
 * An entry without a port opens every port but the refused ones (refused-ports.ts); those must be named.
 * Nothing here can open a metadata or link-local address (never-allowed.ts); an entry that is nothing but such an address is an error.
 */
import { type AddressRange, hasHostBits, isInRange, parseRange } from './address-range.js';
import { isHostNeverAllowed, isRangeNeverAllowed } from './never-allowed.js';
import { type AddressBytes, parseAddress } from './parse-address.js';
import { isPortRefused } from './refused-ports.js';

type AllowTarget = { readonly kind: 'host'; readonly host: string } | { readonly kind: 'range'; readonly range: AddressRange };
export type AllowEntry = AllowTarget & { readonly port: number | null };

/** Parse it once per process. `text` is its canonical spelling; two lists with the same text allow the same. */
export type AllowList = { readonly text: string; readonly entries: readonly AllowEntry[] };

export type AllowListResult = { readonly ok: true; readonly allow: AllowList } | { readonly ok: false; readonly errors: readonly string[] };

/** The default: no exception to the guard. */
export const NOTHING_ALLOWED: AllowList = { text: '', entries: [] };

/** Reads EGRESS_ALLOW. Blank text is `NOTHING_ALLOWED`. Every bad entry gets a sentence that quotes it and says what is wrong. */
export function parseAllowList(text: string): AllowListResult {
  const entries: AllowEntry[] = [];
  const errors: string[] = [];
  const items = text
    .split(',')
    .map((item) => item.trim())
    .filter((item) => item !== '');
  for (const item of items) {
    const entry = parseEntry(item);
    if (typeof entry === 'string') errors.push(`"${item}" ${entry}`);
    else entries.push(entry);
  }
  return errors.length > 0 ? { ok: false, errors } : { ok: true, allow: { text: items.join(',').toLowerCase(), entries } };
}

/** True when an entry opens this host name on this port. `host` as `normaliseHost` gives it. */
export function isHostListed(allow: AllowList, host: string, port: number): boolean {
  return allow.entries.some((entry) => entry.kind === 'host' && entry.host === host && coversPort(entry.port, port));
}

/** True when an entry opens this address on this port. */
export function isAddressListed(allow: AllowList, bytes: AddressBytes, port: number): boolean {
  return allow.entries.some((entry) => entry.kind === 'range' && coversPort(entry.port, port) && isInRange(bytes, entry.range));
}

/** True when some entry names this port. */
export function isPortListed(allow: AllowList, port: number): boolean {
  return allow.entries.some((entry) => entry.port === port);
}

/** A host name in the form it is compared in: as `URL.hostname` gives it (lower case, punycode), without brackets and without the root's dot. */
export function normaliseHost(hostname: string): string {
  if (hostname.startsWith('[')) return hostname.slice(1, -1);
  return hostname.endsWith('.') ? hostname.slice(0, -1) : hostname;
}

function coversPort(entryPort: number | null, port: number): boolean {
  return entryPort === null ? !isPortRefused(port) : entryPort === port;
}

function parseEntry(item: string): AllowEntry | string {
  const split = splitPort(item);
  if (split === null) return 'is not host[:port], ip[:port] or cidr[:port]; write IPv6 in brackets, as in [fd00::/8]:8080';
  const { target: name, port: portText } = split;
  const port = portText === null ? null : Number(portText);
  if (port !== null && (port < 1 || port > 65_535)) return `has the port ${portText}, which is not between 1 and 65535`;
  const target = name.includes('/') || name.includes(':') || parseAddress(name) !== null ? parseRangeTarget(name) : parseHostTarget(name);
  return typeof target === 'string' ? target : { ...target, port };
}

/** `[v6]`, `[v6/n]`, `[v6]/n` or a text without colons, then an optional `:port`. */
function splitPort(item: string): { target: string; port: string | null } | null {
  const bracketed = /^\[([0-9a-f:.]+(?:\/\d+)?)\](\/\d+)?(?::(\d{1,6}))?$/i.exec(item);
  if (bracketed !== null) {
    const target = `${bracketed[1] ?? ''}${bracketed[2] ?? ''}`;
    return target.includes(':') ? { target, port: bracketed[3] ?? null } : null;
  }
  const plain = /^([^:[\]\s]+)(?::(\d{1,6}))?$/.exec(item);
  return plain === null ? null : { target: plain[1] ?? '', port: plain[2] ?? null };
}

function parseRangeTarget(text: string): AllowTarget | string {
  const range = parseRange(text);
  if (range === null) return 'is not an address or CIDR range';
  if (hasHostBits(range)) return 'has bits set after its prefix; write the first address of the range';
  if (isRangeNeverAllowed(range)) return 'is a metadata or link-local address, which can never be allowed';
  return { kind: 'range', range };
}

function parseHostTarget(text: string): AllowTarget | string {
  if (!/^[^\s/?#@\\%*]+$/.test(text)) return 'is not a host name';
  const url = URL.canParse(`http://${text}/`) ? new URL(`http://${text}/`) : null;
  if (url === null || url.hostname === '') return 'is not a host name';
  const host = normaliseHost(url.hostname);
  if (parseAddress(host) !== null) return 'is an address in an unusual spelling; write it as four decimal numbers';
  if (isHostNeverAllowed(host)) return 'is a metadata service, which can never be allowed';
  return { kind: 'host', host };
}
