/**
 * Performs FORWARD_REQUEST: sends the frozen request and says what it came to.
 * A 2xx is done, whatever its body is like: the effect has happened, and a body that is not the JSON it claims to be is no reason to send again. The other
 * statuses fail as the catalogue has it (3xx not followed, 408 425 429 5xx worth another try, other 4xx not). A fault on the way fails under its own code, with
 * `detail.mayHaveBeenSent`, by which a broken connection is judged under the policy `stop`. Our own stop signal spends no attempt: `not_sent`
 * while no byte has left, `uncertain` after.
 * What goes into the output and the details can be stored as it is: JSON no deeper than MAX_JSON_DEPTH, finite numbers, text without NUL and lone surrogates
 * (Postgres takes neither in jsonb).
 * Secrets come with the request and go out in the place of their placeholders. Whatever is said of the exchange is said with their values masked
 * (egress/mask-secrets.ts), before any text is cut to its length.
 */
import { TextDecoder } from 'node:util';
import type { Json } from '@onward/contracts/json';
import type { OutboundRequest } from '@onward/contracts/outbound';
import { failed, type Outcome } from '@onward/contracts/outcome';
import type { AllowList } from '@onward/egress/allow-list';
import { createMask, HIDE_ALL, type Mask } from '@onward/egress/mask-secrets';
import { parseRetryAfter } from '@onward/egress/parse-retry-after';
import { type SecretValue, type SendError, type SendOptions, type SendResponse, sendRequest } from '@onward/egress/send-request';

/** Text bodies are cut to this many bytes in the output. */
export const MAX_TEXT_BYTES = 64 * 1024;
/** A JSON body is kept as JSON up to this size, written out. */
export const MAX_JSON_BYTES = 256 * 1024;
/** Objects and arrays of a JSON body may be nested this deep; deeper ones are kept as text. */
export const MAX_JSON_DEPTH = 32;
/** Of the body of a failed answer, so many characters are kept for people. */
const DETAIL_CHARS = 500;

const UTF_8 = new TextDecoder();

const KEPT_HEADERS = ['content-type', 'location', 'retry-after', 'x-request-id'] as const;
const RETRYABLE_4XX: ReadonlySet<number> = new Set([408, 425, 429]);

export type PerformOptions = {
  readonly allow: AllowList;
  /** Any of them ends it. */
  readonly signals?: readonly AbortSignal[];
  /** The clock by which a Retry-After date is read. */
  readonly now: () => Date;
  readonly lookup?: SendOptions['lookup'];
  /** What the placeholders of the request stand for. */
  readonly secrets?: readonly SecretValue[];
};

/** What an answer is read with: the clock and the mask of the request's secrets. */
type Reading = { readonly now: () => Date; readonly mask: Mask };

type Body = { readonly body: Json; readonly bodyKind: 'json' | 'text' | 'empty'; readonly warnings: readonly string[] };

/** Sends once and never again. Never rejects. */
export async function performRequest(request: OutboundRequest, { allow, signals = [], now, lookup, secrets = [] }: PerformOptions): Promise<Outcome> {
  const result = await sendRequest(request, { allow, secrets, signals, ...(lookup && { lookup }) });
  try {
    const reading = { now, mask: createMask(secrets) };
    return result.kind === 'error' ? judgeError(result, reading) : judgeResponse(result, reading);
  } catch {
    return judgeUnread(result);
  }
}

/** What has been answered stays answered, also when there is a fault in reading it: its status decides, and nothing else of it is shown. */
function judgeUnread(result: SendResponse | SendError): Outcome {
  const reading = { now: () => new Date(), mask: HIDE_ALL };
  if (result.kind === 'error') return judgeError(result, reading);
  const { status, body } = result;
  if (status < 200 || status > 299) return judgeStatus({ status, rawHeaders: [] }, 'The body could not be shown', null, reading);
  const output = { status, headers: {}, body: null, bodyKind: 'empty', bytes: body.length };
  return { kind: 'done', output, warnings: ['The body could not be shown'] };
}

function judgeResponse(response: SendResponse, reading: Reading): Outcome {
  const { status } = response;
  const { mask } = reading;
  if (status < 200 || status > 299) return judgeStatus(response, readText(response.body, contentTypeOf(response)), response.redirectRefused, reading);
  const { body, bodyKind, warnings } = readBody(response, mask);
  const headers: Record<string, string> = {};
  for (const name of KEPT_HEADERS) {
    const value = response.headers[name];
    if (value !== undefined) headers[name] = storable(mask.text(value));
  }
  const output = { status, headers, body, bodyKind, bytes: response.body.length };
  return { kind: 'done', output, ...(warnings.length > 0 && { warnings: warnings.map((warning) => mask.text(warning)) }) };
}

/** A status outside 2xx → the failure it stands for. `body` is text of any length. */
function judgeStatus(head: Pick<SendResponse, 'status' | 'rawHeaders'>, body: string, redirectRefused: string | null, { now, mask }: Reading): Outcome {
  const { status } = head;
  const shownBody = storable(mask.text(body).slice(0, DETAIL_CHARS));
  if (status >= 300 && status <= 399) {
    const location = storable(mask.text(valuesOf(head, 'location')[0] ?? ''));
    const why = redirectRefused === null ? '' : ` (${redirectRefused})`;
    const detail = { status, location: location === '' ? null : location, body: shownBody };
    return failed('redirect_refused', `The target answered ${status} with Location ${location === '' ? 'missing' : location}${why}`, { detail });
  }
  const detail = { status, body: shownBody };
  if (status < 500 && !RETRYABLE_4XX.has(status)) return failed('http_permanent', `The target answered ${status}`, { detail });
  const retryAfterMs = parseRetryAfter(valuesOf(head, 'retry-after'), now());
  return failed('http_retryable', `The target answered ${status}`, { detail, ...(retryAfterMs !== undefined && { retryAfterMs }) });
}

function judgeError({ code, message, mayHaveBeenSent, head }: SendError, reading: Reading): Outcome {
  if (code === 'aborted') {
    return mayHaveBeenSent
      ? { kind: 'uncertain', failure: { code: 'process_died', message: 'The worker was stopped between sending and the answer' } }
      : { kind: 'not_sent', why: 'stopping' };
  }
  // An oversized error page is an error all the same: its status decides, and only its body is lost.
  if (code === 'response_too_large' && head !== null && head.status >= 400) return judgeStatus(head, '', null, reading);
  return failed(code, reading.mask.text(message), { detail: { mayHaveBeenSent, ...(head !== null && { status: head.status }) } });
}

function readBody(response: SendResponse, mask: Mask): Body {
  const { body, undecoded } = response;
  if (body.length === 0) return { body: null, bodyKind: 'empty', warnings: [] };
  const contentType = contentTypeOf(response);
  if (undecoded !== null) return asText(response, mask, [`The body is encoded as ${storable(undecoded)}, which could not be undone; it is kept as it came`]);
  if (!isJsonType(contentType)) return asText(response, mask, []);
  const read = parseJson(readText(body, contentType));
  if (read === undefined) return asText(response, mask, ['The body is not the JSON it claims to be; it is kept as text']);
  if (!isStorable(read, MAX_JSON_DEPTH))
    return asText(response, mask, ['The body is JSON that cannot be stored (depth, number or character); it is kept as text']);
  const value = mask.json(read);
  // Written again it may be far longer than it came (1e20 has 21 digits), and what is recorded must fit into a message to the backend.
  if (Buffer.byteLength(JSON.stringify(value)) > MAX_JSON_BYTES)
    return asText(response, mask, [`The body is JSON of over ${MAX_JSON_BYTES} bytes; its beginning is kept as text`]);
  return { body: value, bodyKind: 'json', warnings: [] };
}

/** The text is masked as a whole and cut after that: half a value would not be found. */
function asText(response: SendResponse, mask: Mask, warnings: readonly string[]): Body {
  const { body } = response;
  const text = storable(mask.text(readText(body, contentTypeOf(response))));
  const cut = cutToBytes(text, MAX_TEXT_BYTES);
  if (cut === text) return { body: text, bodyKind: 'text', warnings };
  return { body: cut, bodyKind: 'text', warnings: [...warnings, `The body has ${body.length} bytes; the first ${MAX_TEXT_BYTES} are kept`] };
}

/** The beginning of a text that fits into so many bytes of UTF-8; a character that would be cut in two is left out. */
function cutToBytes(text: string, maxBytes: number): string {
  const bytes = Buffer.from(text, 'utf8');
  return bytes.length <= maxBytes ? text : new TextDecoder().decode(bytes.subarray(0, maxBytes), { stream: true });
}

/** Bytes → text by the charset of the content type, else UTF-8; a byte order mark is dropped. */
function readText(body: Uint8Array, contentType: string): string {
  const charset = /;\s*charset\s*=\s*"?([^\s";]+)/i.exec(contentType)?.[1];
  return decoderFor(charset).decode(body);
}

function decoderFor(charset: string | undefined): TextDecoder {
  if (charset !== undefined) {
    try {
      return new TextDecoder(charset);
    } catch {
      // not a label of the Encoding standard: read it as UTF-8
    }
  }
  return UTF_8;
}

/** `application/json`, and anything `+json` (RFC 6839 §3.1). */
function isJsonType(contentType: string): boolean {
  const type = (contentType.split(';')[0] ?? '').trim().toLowerCase();
  return type === 'application/json' || type.endsWith('+json');
}

function parseJson(text: string): Json | undefined {
  try {
    const value: Json = JSON.parse(text);
    return value;
  } catch {
    return undefined;
  }
}

function isStorable(value: Json, depthLeft: number): boolean {
  switch (typeof value) {
    case 'number':
      return Number.isFinite(value); // 1e999 is JSON text and Infinity here
    case 'string':
      return storable(value) === value;
    case 'object': {
      if (value === null) return true;
      if (depthLeft === 0) return false;
      if (Array.isArray(value)) return value.every((item) => isStorable(item, depthLeft - 1));
      return Object.entries(value).every(([key, item]) => storable(key) === key && isStorable(item, depthLeft - 1));
    }
    default:
      return true;
  }
}

function storable(text: string): string {
  return text.isWellFormed() && !text.includes('\0') ? text : text.replace(/[\0\p{Surrogate}]/gu, '\ufffd');
}

function contentTypeOf({ rawHeaders }: Pick<SendResponse, 'rawHeaders'>): string {
  return valuesOf({ rawHeaders }, 'content-type')[0] ?? '';
}

function valuesOf({ rawHeaders }: Pick<SendResponse, 'rawHeaders'>, wanted: string): string[] {
  return rawHeaders.filter(([name]) => name === wanted).map(([, value]) => value);
}
