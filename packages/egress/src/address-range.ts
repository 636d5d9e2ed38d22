/**
 * A CIDR range over 16-byte addresses.
 * A range of IPv6 never holds an IPv4 address, although IPv4 is kept in the mapped form: `[::/0]` says "all of IPv6" and not "everything".
 */
import { type AddressBytes, isV4, parseAddress } from './parse-address.js';

/** `prefixBits` counts from the start of the 16 bytes: an IPv4 /24 is 120. */
export type AddressRange = { readonly bytes: AddressBytes; readonly prefixBits: number };

/** `10.0.0.0/8` or `fd00::/8`; without a prefix, that single address. Null when it is neither. Bits after the prefix are kept: see `hasHostBits`. */
export function parseRange(text: string): AddressRange | null {
  const slash = text.indexOf('/');
  const bytes = parseAddress(slash === -1 ? text : text.slice(0, slash));
  if (bytes === null) return null;
  if (slash === -1) return { bytes, prefixBits: 128 };
  const prefix = text.slice(slash + 1);
  if (!/^\d{1,3}$/.test(prefix)) return null;
  const prefixBits = text.includes(':') ? Number(prefix) : Number(prefix) + 96;
  return prefixBits > 128 ? null : { bytes, prefixBits };
}

/** True when the address lies in the range. */
export function isInRange(bytes: AddressBytes, range: AddressRange): boolean {
  return isV4(bytes) === isV4Range(range) && sharesPrefix(bytes, range.bytes, range.prefixBits);
}

/** True when every address of `inner` lies in `outer`. */
export function isRangeWithin(inner: AddressRange, outer: AddressRange): boolean {
  return inner.prefixBits >= outer.prefixBits && isV4Range(inner) === isV4Range(outer) && sharesPrefix(inner.bytes, outer.bytes, outer.prefixBits);
}

/** True when bits after the prefix are set, as in `10.1.2.3/24`: almost always a slip of the pen. */
export function hasHostBits(range: AddressRange): boolean {
  for (let bit = range.prefixBits; bit < 128; bit++) {
    if (((range.bytes[bit >> 3] ?? 0) & (0x80 >> (bit & 7))) !== 0) return true;
  }
  return false;
}

function isV4Range(range: AddressRange): boolean {
  return range.prefixBits >= 96 && isV4(range.bytes);
}

function sharesPrefix(a: AddressBytes, b: AddressBytes, bits: number): boolean {
  const whole = bits >> 3;
  for (let i = 0; i < whole; i++) if (a[i] !== b[i]) return false;
  const rest = bits & 7;
  if (rest === 0) return true;
  const mask = (0xff << (8 - rest)) & 0xff;
  return ((a[whole] ?? 0) & mask) === ((b[whole] ?? 0) & mask);
}
