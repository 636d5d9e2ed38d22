/**
 * Reads an IP address from text into 16 bytes.
 * An IPv4 address is kept in its mapped form (::ffff:0:0/96, RFC 4291 §2.5.5.2), which is what the kernel dials for either spelling: so
 * `127.0.0.1` and `[::ffff:7f00:1]` are the same bytes and nothing downstream can tell them apart. No library is used: the
 * ones at hand have each missed an embedding.
 * Not promised: the lenient forms of inet_aton (`127.1`, `0x7f.1`, `017700000001`). `new URL` has already turned those into dotted decimal.
 */

/** Sixteen bytes in network order. */
export type AddressBytes = Uint8Array;

const DECIMAL_BYTE = /^(?:0|[1-9]\d{0,2})$/;
const HEX_GROUP = /^[0-9a-f]{1,4}$/i;

/** `text` without brackets and without a zone → its bytes, or null when it is not an address (a zone id is not an address here). */
export function parseAddress(text: string): AddressBytes | null {
  return text.includes(':') ? parseV6(text) : parseMappedV4(text);
}

/** True for an IPv4 address, which is kept as `::ffff:a.b.c.d`. */
export function isV4(bytes: AddressBytes): boolean {
  for (let i = 0; i < 10; i++) if (bytes[i] !== 0) return false;
  return bytes[10] === 0xff && bytes[11] === 0xff;
}

/** Four bytes → the sixteen of the mapped form. */
export function mapV4(four: Uint8Array): AddressBytes {
  const bytes = new Uint8Array(16);
  bytes[10] = 0xff;
  bytes[11] = 0xff;
  bytes.set(four, 12);
  return bytes;
}

function parseMappedV4(text: string): AddressBytes | null {
  const four = parseV4(text);
  return four === null ? null : mapV4(four);
}

function parseV4(text: string): Uint8Array | null {
  const parts = text.split('.');
  if (parts.length !== 4) return null;
  const four = new Uint8Array(4);
  for (const [i, part] of parts.entries()) {
    if (!DECIMAL_BYTE.test(part) || Number(part) > 255) return null;
    four[i] = Number(part);
  }
  return four;
}

function parseV6(text: string): AddressBytes | null {
  const halves = text.split('::');
  if (halves.length > 2) return null;
  const head = readGroups(halves[0] ?? '', halves.length === 1);
  const tail = halves.length === 2 ? readGroups(halves[1] ?? '', true) : [];
  if (head === null || tail === null) return null;
  const given = head.length + tail.length;
  if (halves.length === 1 ? given !== 16 : given > 14) return null;
  const bytes = new Uint8Array(16);
  bytes.set(head, 0);
  bytes.set(tail, 16 - tail.length);
  return bytes;
}

/** Groups of one side of `::` → bytes. Only the last group of the whole address may be dotted decimal (RFC 4291 §2.2, form 3). */
function readGroups(text: string, isLastSide: boolean): number[] | null {
  if (text === '') return [];
  const bytes: number[] = [];
  const groups = text.split(':');
  for (const [i, group] of groups.entries()) {
    if (HEX_GROUP.test(group)) {
      const value = Number.parseInt(group, 16);
      bytes.push(value >> 8, value & 0xff);
      continue;
    }
    const four = isLastSide && i === groups.length - 1 ? parseV4(group) : null;
    if (four === null) return null;
    bytes.push(...four);
  }
  return bytes;
}
