/** The words of sending a request: what is asked, what comes back, why it failed. Times are in ms, sizes in bytes. */
import type { LookupFunction } from 'node:net';
import type { AllowList } from './allow-list.js';
import type { SecretValue } from './secret-value.js';

export const METHODS = ['GET', 'POST', 'PUT', 'PATCH', 'DELETE', 'HEAD'] as const;
export type Method = (typeof METHODS)[number];

export type SendRequest = {
  readonly method: Method;
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  /** Sent as UTF-8. */
  readonly body: string | null;
  /** From the call to the last byte of the last body, redirects included. */
  readonly timeoutMs: number;
  /** For each connection, name lookup and TLS included; default 10,000. */
  readonly connectTimeoutMs?: number;
  /** From the first byte sent to the last header received, for each hop; default: only `timeoutMs` counts. */
  readonly headersTimeoutMs?: number;
  /** Default 1 MiB. */
  readonly maxRequestBytes?: number;
  /** Holds for the body as received and for the body as decoded. */
  readonly maxResponseBytes: number;
  readonly followRedirects: boolean;
};

export type SendOptions = {
  readonly allow: AllowList;
  /** Any of them stops the request wherever it is. They are listened to by `onAbort`. */
  readonly signals?: readonly AbortSignal[];
  /** Resolves names, as `dns.lookup` does (the default). */
  readonly lookup?: LookupFunction;
  /** What the placeholders in URL, header values and body stand for; their values go to no other origin than theirs. */
  readonly secrets?: readonly SecretValue[];
};

export type SendResponse = {
  readonly kind: 'response';
  readonly status: number;
  /** Names in lower case; a header that came several times has its values joined with `, ` (RFC 9110 §5.3). */
  readonly headers: Readonly<Record<string, string>>;
  /** The headers one by one as they came, for those that cannot be joined (Set-Cookie, dates). */
  readonly rawHeaders: readonly (readonly [name: string, value: string])[];
  /** Decoded, unless `undecoded` names the Content-Encoding it is still in. */
  readonly body: Uint8Array;
  readonly undecoded: string | null;
  /** Size of the body before decoding. */
  readonly wireBytes: number;
  readonly bytesSent: true;
  /** Why a redirect was not followed although `followRedirects` was on; the response is the 3xx itself. */
  readonly redirectRefused: string | null;
};

export type SendErrorCode =
  | 'address_not_allowed'
  | 'request_invalid'
  | 'secret_not_allowed'
  | 'network'
  | 'timeout'
  | 'response_cut'
  | 'response_too_large'
  | 'aborted';

export type SendError = {
  readonly kind: 'error';
  readonly code: SendErrorCode;
  /** For people. Names the host and the fault; never the path, the query or a header's value. */
  readonly message: string;
  /** False only when it is certain that no byte of the request left. */
  readonly mayHaveBeenSent: boolean;
  /** The head of the answer, when it had come before the fault. */
  readonly head: { readonly status: number; readonly rawHeaders: readonly (readonly [name: string, value: string])[] } | null;
};

export type SendResult = SendResponse | SendError;
