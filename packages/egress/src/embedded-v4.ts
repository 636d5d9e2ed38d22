/**
 * Finds the IPv4 addresses that an IPv6 address carries inside.
 * A translator or a tunnel on the way may unwrap them, so an inner address is judged like an outer one. The mapped form is not among them: it *is*
 * the IPv4 address here (parse-address.ts).
 * Not promised: NAT64 under a network's own prefix (RFC 6052 §2.2), which cannot be told from an ordinary address.
 */
import { type AddressBytes, mapV4 } from './parse-address.js';
import { type AddressRange, isInRange, parseRange } from './address-range.js';

const COMPATIBLE = rangeOf('::/96');
const TRANSLATED = rangeOf('::ffff:0:0:0/96');
const NAT64 = rangeOf('64:ff9b::/96');
const NAT64_LOCAL = rangeOf('64:ff9b:1::/48');
const SIX_TO_FOUR = rangeOf('2002::/16');
const TEREDO = rangeOf('2001::/32');

/**
 * Every IPv4 address inside, in mapped form; empty when there is none.
 * Sources: compatible RFC 4291 §2.5.5.1, translated RFC 2765, NAT64 RFC 6052 §2.2 and RFC 8215, 6to4 RFC 3056, Teredo RFC 4380 §4 (the client's
 * address is stored inverted), ISATAP RFC 5214 §6.1.
 */
export function findEmbeddedV4(bytes: AddressBytes): AddressBytes[] {
  const found: AddressBytes[] = [];
  const take = (...at: [number, number, number, number]) => found.push(mapV4(Uint8Array.from(at, (i) => bytes[i] ?? 0)));
  if (isInRange(bytes, COMPATIBLE) || isInRange(bytes, TRANSLATED) || isInRange(bytes, NAT64)) take(12, 13, 14, 15);
  if (isInRange(bytes, NAT64_LOCAL)) {
    take(6, 7, 9, 10);
    take(12, 13, 14, 15);
  }
  if (isInRange(bytes, SIX_TO_FOUR)) take(2, 3, 4, 5);
  if (isInRange(bytes, TEREDO)) {
    take(4, 5, 6, 7);
    found.push(mapV4(bytes.subarray(12).map((byte) => byte ^ 0xff)));
  }
  if (isIsatap(bytes)) take(12, 13, 14, 15);
  return found;
}

/** True for an interface identifier of ISATAP, `::0:5efe:a.b.c.d` or `::200:5efe:a.b.c.d` under any prefix (RFC 5214 §6.1). */
export function isIsatap(bytes: AddressBytes): boolean {
  return ((bytes[8] ?? 0) & 0xfd) === 0 && bytes[9] === 0 && bytes[10] === 0x5e && bytes[11] === 0xfe;
}

/** True for the well-known NAT64 prefix 64:ff9b::/96 (RFC 6052 §2.1), the only embedding that ordinary public addresses are reached by. */
export function isNat64(bytes: AddressBytes): boolean {
  return isInRange(bytes, NAT64);
}

function rangeOf(text: string): AddressRange {
  const range = parseRange(text);
  if (range === null) throw new Error(`not a range: ${text}`);
  return range;
}
