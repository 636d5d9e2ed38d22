/**
 * Decides whether an address may be dialled.
 * The rule is the reverse of a block-list for IPv6 (only global unicast, less its special parts) and the IANA special-purpose registry (RFC 6890) for
 * IPv4. It looks at bytes only, never at text, and is asked about the address that is dialled, not about the name.
 * Not promised: anything about an address that is public and yet inside the operator's network; that is a firewall's work.
 */
import { type AddressRange, isInRange, parseRange } from './address-range.js';
import { type AllowList, isAddressListed, isHostListed } from './allow-list.js';
import { findEmbeddedV4, isIsatap, isNat64 } from './embedded-v4.js';
import { isAddressNeverAllowed } from './never-allowed.js';
import { type AddressBytes, isV4 } from './parse-address.js';
import { isPortRefused } from './refused-ports.js';

export { type AddressBytes, parseAddress } from './parse-address.js';

/** `why` completes the sentence "… is refused: <why>". It names the kind of address and not the address: a name's inner address is nobody's business. */
export type AddressVerdict = { readonly allowed: true } | { readonly allowed: false; readonly why: string };

const ALLOWED: AddressVerdict = { allowed: true };

const SPECIAL_V4 = ranges([
  ['0.0.0.0/8', 'an unspecified address'], // RFC 1122 §3.2.1.3; Linux dials loopback for 0.0.0.0
  ['10.0.0.0/8', 'a private address'], // RFC 1918
  ['100.64.0.0/10', 'a carrier-grade NAT address'], // RFC 6598
  ['127.0.0.0/8', 'a loopback address'], // RFC 1122
  ['169.254.0.0/16', 'a link-local address'], // RFC 3927
  ['172.16.0.0/12', 'a private address'], // RFC 1918
  ['192.0.0.0/24', 'a protocol assignment'], // RFC 6890
  ['192.0.2.0/24', 'a documentation address'], // RFC 5737
  ['192.31.196.0/24', 'an AS112 address'], // RFC 7535
  ['192.52.193.0/24', 'an AMT address'], // RFC 7450
  ['192.88.99.0/24', 'a 6to4 relay'], // RFC 7526
  ['192.168.0.0/16', 'a private address'], // RFC 1918
  ['192.175.48.0/24', 'an AS112 address'], // RFC 7534
  ['198.18.0.0/15', 'a benchmarking address'], // RFC 2544
  ['198.51.100.0/24', 'a documentation address'], // RFC 5737
  ['203.0.113.0/24', 'a documentation address'], // RFC 5737
  ['224.0.0.0/4', 'a multicast address'], // RFC 5771
  ['240.0.0.0/4', 'a reserved or broadcast address'], // RFC 1112 §4, RFC 919
]);

const GLOBAL_UNICAST = ranges([['2000::/3', '']]);

const SPECIAL_V6 = ranges([
  ['::1/128', 'a loopback address'], // RFC 4291 §2.5.3
  ['::/128', 'an unspecified address'], // RFC 4291 §2.5.2
  ['::/96', 'an IPv4-compatible address'], // RFC 4291 §2.5.5.1
  ['64:ff9b:1::/48', 'a local NAT64 address'], // RFC 8215
  ['fc00::/7', 'a private address'], // RFC 4193
  ['fe80::/10', 'a link-local address'], // RFC 4291 §2.5.6
  ['fec0::/10', 'a site-local address'], // RFC 3879
  ['ff00::/8', 'a multicast address'], // RFC 4291 §2.7
  ['2001::/32', 'a Teredo address'], // RFC 4380
  ['2001::/23', 'a protocol assignment'], // RFC 2928
  ['2001:db8::/32', 'a documentation address'], // RFC 3849
  ['2002::/16', 'a 6to4 address'], // RFC 3056, RFC 7526
  ['3fff::/20', 'a documentation address'], // RFC 9637
]);

/** True when the address may be dialled on this port (1 to 65535) under this allow-list. */
export function isAddressAllowed(bytes: AddressBytes, port: number, allow: AllowList): boolean {
  return judgeAddress(bytes, port, allow, null).allowed;
}

/**
 * The same with the reason. `host` is the name that was resolved to the address, in the form of `normaliseHost`, or null for a literal: an allow-list entry
 * for a name covers whatever it resolves to, except what can never be allowed.
 */
export function judgeAddress(bytes: AddressBytes, port: number, allow: AllowList, host: string | null): AddressVerdict {
  if (isAddressNeverAllowed(bytes)) return { allowed: false, why: 'a link-local or metadata address, which can never be allowed' };
  if (isAddressListed(allow, bytes, port) || (host !== null && isHostListed(allow, host, port))) return ALLOWED;
  const special = nameSpecial(bytes);
  if (special !== null) return { allowed: false, why: special };
  return isPortRefused(port) ? { allowed: false, why: `port ${port}, which is not for HTTP` } : ALLOWED;
}

/** What is special about the address, or null for an ordinary public one. */
function nameSpecial(bytes: AddressBytes): string | null {
  if (isV4(bytes)) return SPECIAL_V4.find(({ range }) => isInRange(bytes, range))?.kind ?? null;
  if (isNat64(bytes))
    return (
      findEmbeddedV4(bytes)
        .map(nameSpecial)
        .find((kind) => kind !== null) ?? null
    );
  const special = SPECIAL_V6.find(({ range }) => isInRange(bytes, range));
  if (special !== undefined) return special.kind;
  if (isIsatap(bytes)) return 'an ISATAP address';
  return GLOBAL_UNICAST.some(({ range }) => isInRange(bytes, range)) ? null : 'not a global unicast address';
}

function ranges(table: readonly (readonly [string, string])[]): readonly { range: AddressRange; kind: string }[] {
  return table.map(([text, kind]) => {
    const range = parseRange(text);
    if (range === null) throw new Error(`not a range: ${text}`);
    return { range, kind };
  });
}
