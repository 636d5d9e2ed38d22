/**
 * What travels to the backend, and the proof that it comes from a process that knows the secret.
 *
 * A packet names its call (`id`), the pattern, and carries the JSON text of the data as `body`. Its MAC is HMAC-SHA256 (RFC 2104) over
 * time, nonce, id, pattern and body, so none of them can be exchanged; the fields before the body cannot hold a line break, so
 * none can slip into its neighbour. A packet is taken once and only within 30 s of its own time. The body is looked at after
 * the packet has proved authentic, never before.
 *
 * Not promised: secrecy. Whoever can read the connection reads the data; TLS or a private network is for that.
 */
import { createHmac, randomBytes, timingSafeEqual } from 'node:crypto';
import { type RpcError, rpcErrorSchema } from '@onward/contracts/frame';
import { encodeMessage } from './codec.js';
import { type NonceMemory, WINDOW_MS } from './nonce-memory.js';

/** A call on its way to the backend. `at` is the signer's clock in ms since 1970; `mac` is 64 hex digits; `body` is JSON text. */
export interface Packet {
  id: string;
  pattern: string;
  auth: { at: number; nonce: string; mac: string };
  body: string;
}

/** The backend's answer to the call `id`: a reply of the pattern, or an error of the catalogue. */
export type Answer = { id: string; reply: unknown } | { id: string; error: RpcError };

const NAME = /^[A-Za-z0-9_-]{1,64}$/;
const PATTERN_NAME = /^[A-Za-z0-9._-]{1,100}$/;
const MAC = /^[0-9a-f]{64}$/;

/** Signs one call. `now` is the present in ms since 1970; the nonce is made here, so the same call sent again is signed anew. */
export function sign({ secret, pattern, body, id }: { secret: string; pattern: string; body: string; id: string }, now: number): Packet {
  const nonce = randomBytes(16).toString('base64url');
  return { id, pattern, auth: { at: now, nonce, mac: macOf({ secret, at: now, nonce, id, pattern, body }).toString('hex') }, body };
}

/** The bytes of a packet. Throws CodecError. */
export function encodePacket({ body, ...head }: Packet): Buffer {
  return encodeMessage(head, body);
}

/**
 * Whether the packet is authentic under one of the secrets (two while one is being replaced), of now and not seen before. The answer says
 * neither which of these failed nor which secret fitted, and takes the same time for every MAC: all secrets are always tried. Only authentic
 * packets reach the memory of nonces, so a stranger cannot fill it; it is one memory for all secrets.
 */
export function verify(packet: Packet, { secrets, now, nonces }: { secrets: readonly string[]; now: number; nonces: NonceMemory }): 'ok' | 'unauthenticated' {
  const { id, pattern, auth, body } = packet;
  const given = Buffer.from(auth.mac, 'hex');
  const fits = secrets.map((secret) => {
    const expected = macOf({ secret, at: auth.at, nonce: auth.nonce, id, pattern, body });
    return given.length === expected.length && timingSafeEqual(given, expected);
  });
  const isAuthentic = fits.includes(true);
  const isOfNow = Math.abs(now - auth.at) <= WINDOW_MS;
  return isAuthentic && isOfNow && nonces.remember(auth.nonce, auth.at, now) ? 'ok' : 'unauthenticated';
}

/** The packet in a decoded message, or null when the message is none. A null is `malformed`; it has no id that could be answered. */
export function readPacket(message: unknown): Packet | null {
  if (!hasExactly(message, ['id', 'pattern', 'auth', 'body'])) return null;
  const { id, pattern, auth, body } = message;
  if (!hasExactly(auth, ['at', 'nonce', 'mac'])) return null;
  const { at, nonce, mac } = auth;
  if (!isMatch(id, NAME) || !isMatch(pattern, PATTERN_NAME) || !isMatch(nonce, NAME) || !isMatch(mac, MAC)) return null;
  if (typeof at !== 'number' || !Number.isSafeInteger(at) || typeof body !== 'string') return null;
  return { id, pattern, auth: { at, nonce, mac }, body };
}

/** The answer in a decoded message, or null when the message is none. */
export function readAnswer(message: unknown): Answer | null {
  if (hasExactly(message, ['id', 'reply'])) return isMatch(message['id'], NAME) ? { id: message['id'], reply: message['reply'] } : null;
  if (!hasExactly(message, ['id', 'error']) || !isMatch(message['id'], NAME)) return null;
  const error = rpcErrorSchema.safeParse(message['error']);
  return error.success ? { id: message['id'], error: error.data } : null;
}

function macOf({ secret, at, nonce, id, pattern, body }: { secret: string; at: number; nonce: string; id: string; pattern: string; body: string }): Buffer {
  return createHmac('sha256', secret).update(`${at}\n${nonce}\n${id}\n${pattern}\n`).update(body).digest();
}

function isMatch(value: unknown, shape: RegExp): value is string {
  return typeof value === 'string' && shape.test(value);
}

function hasExactly<K extends string>(value: unknown, keys: readonly K[]): value is Record<K, unknown> {
  return typeof value === 'object' && value !== null && Object.keys(value).length === keys.length && keys.every((key) => Object.hasOwn(value, key));
}
