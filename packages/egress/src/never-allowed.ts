/**
 * What no allow-list can open: the metadata services of the clouds, which hand out credentials to whoever can reach them, and link-local
 * addresses, where most of them live (RFC 3927, RFC 4291 §2.5.6). An operator who opens `10.0.0.0/8` or `fd00::/8` does not mean these.
 */
import { type AddressRange, isInRange, isRangeWithin, parseRange } from './address-range.js';
import { findEmbeddedV4 } from './embedded-v4.js';
import type { AddressBytes } from './parse-address.js';

const NEVER_RANGES: readonly AddressRange[] = [
  '169.254.0.0/16', // AWS, Google, Azure, Oracle, DigitalOcean, Scaleway, Tencent, OpenStack; AWS container credentials
  'fe80::/10',
  '100.100.100.200', // Alibaba
  '168.63.129.16', // Azure's wire server
  '192.0.0.192', // Oracle, classic
  'fd00:ec2::/32', // AWS over IPv6
  'fd20:ce::254', // Google over IPv6
  'fd00:c1::a9fe:a9fe', // Oracle over IPv6
  'fd00:42::42', // Scaleway over IPv6
].map((text) => {
  const range = parseRange(text);
  if (range === null) throw new Error(`not a range: ${text}`);
  return range;
});

const NEVER_HOSTS: ReadonlySet<string> = new Set([
  'metadata',
  'metadata.google.internal',
  'metadata.goog',
  'metadata.azure.internal',
  'metadata.tencentyun.com',
  'metadata.platformequinix.com',
  'instance-data',
  'instance-data.ec2.internal',
]);

/** True when the address, or one embedded in it, can never be dialled. */
export function isAddressNeverAllowed(bytes: AddressBytes): boolean {
  return [bytes, ...findEmbeddedV4(bytes)].some((candidate) => NEVER_RANGES.some((range) => isInRange(candidate, range)));
}

/** True when the whole range can never be dialled, so that an allow-list entry for it would say nothing. */
export function isRangeNeverAllowed(range: AddressRange): boolean {
  return NEVER_RANGES.some((never) => isRangeWithin(range, never));
}

/** `host` in the form `normaliseHost` gives it. */
export function isHostNeverAllowed(host: string): boolean {
  return NEVER_HOSTS.has(host);
}
