/**
 * Undoes the Content-Encoding of a body. We ask for `identity`; a server that compresses all the same is met halfway: one gzip, deflate or br is undone,
 * with the cap on the decoded size (a 200 KB gzip can hold 200 MB). More than one coding in a row, an unknown one, and bytes that are not what the
 * header says are left as they are and named: the effect of the request has happened and the body is for the caller to judge.
 */
import { promisify } from 'node:util';
import { brotliDecompress, gunzip, inflate, inflateRaw } from 'node:zlib';

export type DecodedBody =
  | { readonly kind: 'body'; readonly body: Uint8Array; readonly undecoded: string | null }
  | { readonly kind: 'too_large' }
  /** The compressed bytes end before their end mark. */
  | { readonly kind: 'cut' };

const decoders = {
  gzip: promisify(gunzip),
  zlib: promisify(inflate),
  raw: promisify(inflateRaw),
  br: promisify(brotliDecompress),
} as const;

/** `contentEncoding` is the header's value, joined when it came several times. `maxBytes` bounds what comes out. */
export async function decodeBody(wire: Uint8Array, contentEncoding: string | undefined, maxBytes: number): Promise<DecodedBody> {
  const codings = (contentEncoding ?? '')
    .split(',')
    .map((coding) => coding.trim().toLowerCase())
    .filter((coding) => coding !== '' && coding !== 'identity');
  const [coding] = codings;
  if (coding === undefined || wire.length === 0) return { kind: 'body', body: wire, undecoded: null };
  const undecoded = { kind: 'body', body: wire, undecoded: codings.join(', ').slice(0, 100) } as const;
  const decode = codings.length === 1 ? pickDecoder(coding, wire) : null;
  if (decode === null) return undecoded;
  try {
    return { kind: 'body', body: await decode(wire, { maxOutputLength: maxBytes }), undecoded: null };
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? error.code : null;
    if (code === 'ERR_BUFFER_TOO_LARGE') return { kind: 'too_large' };
    return code === 'Z_BUF_ERROR' ? { kind: 'cut' } : undecoded;
  }
}

function pickDecoder(coding: string, wire: Uint8Array): (typeof decoders)[keyof typeof decoders] | null {
  switch (coding) {
    case 'gzip':
    case 'x-gzip':
      return decoders.gzip;
    case 'deflate':
      return hasZlibHeader(wire) ? decoders.zlib : decoders.raw; // RFC 9110 §8.4.1.2 means zlib; some servers send bare deflate
    case 'br':
      return decoders.br;
    default:
      return null;
  }
}

/** RFC 1950 §2.2: method 8, and the two bytes are a multiple of 31. */
function hasZlibHeader(wire: Uint8Array): boolean {
  const first = wire[0] ?? 0;
  return (first & 0x0f) === 8 && (first * 256 + (wire[1] ?? 0)) % 31 === 0;
}
