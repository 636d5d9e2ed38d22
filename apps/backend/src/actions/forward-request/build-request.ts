import type { OutboundRequest } from '@onward/contracts/outbound';
import type { Scope } from '../../runtime/scope.js';
import { fill } from '../../templates/fill.js';
import { encodeFields } from './encode-fields.js';
import { fillJson } from './fill-json.js';
import { type Fields, type ForwardRequestConfig, hasLongHost, MAX_HOST_CHARACTERS, mayHaveBody, writtenOrigin } from './forward-request.config.js';

/** Sizes in bytes. The body's bound is that of our own API; the answer is kept with the step, so it is bounded too. */
export const MAX_BODY_BYTES = 256 * 1024;
const MAX_URL_CHARACTERS = 8_192;
const MAX_HEADER_BYTES = 16 * 1024;
export const MAX_RESPONSE_BYTES = 1024 * 1024;

const CONTENT_TYPES = { json: 'application/json', text: 'text/plain; charset=utf-8', form: 'application/x-www-form-urlencoded' } as const;

export type BuiltRequest = { ok: true; request: OutboundRequest } | { ok: false; reason: string };
type Part<Value> = { ok: true; value: Value } | { ok: false; reason: string };

const refuse = (reason: string): { ok: false; reason: string } => ({ ok: false, reason });

/**
 * Builds the request of a step from its configuration and what the run may see. The same inputs give the same bytes.
 * Refuses, in words for people, what cannot be sent as it is written; throws TemplateError for a text that cannot be filled.
 * Whether the address may be dialled is not judged here but where the bytes leave.
 */
export function buildRequest(config: ForwardRequestConfig, scope: Scope, idempotencyKey: string): BuiltRequest {
  const url = buildUrl(config, scope);
  if (!url.ok) return url;
  const body = buildBody(config, scope);
  if (!body.ok) return body;
  const headers = buildHeaders(config, scope, idempotencyKey, body.value.contentType);
  if (!headers.ok) return headers;
  return {
    ok: true,
    request: {
      method: config.method,
      url: url.value,
      headers: headers.value,
      body: body.value.text,
      timeoutMs: config.timeoutMs,
      maxResponseBytes: MAX_RESPONSE_BYTES,
      followRedirects: config.followRedirects,
    },
  };
}

/** The address as it goes out (URL Standard): host in ASCII, the query it had kept byte by byte and ours put behind it, no fragment. */
function buildUrl({ url: template, query }: ForwardRequestConfig, scope: Scope): Part<string> {
  const written = fill(template, scope, 'url').trim();
  const origin = writtenOrigin(template);
  if (origin === null || origin !== writtenOrigin(written)) return refuse('The host of the address must be written out; a value must not change it');
  const url = URL.canParse(written) ? new URL(written) : null;
  if (url === null) return refuse(`The address is not one that can be called: ${written.slice(0, 200)}`);
  if (url.protocol !== 'http:' && url.protocol !== 'https:') return refuse('The address must begin with http:// or https://');
  if (url.username !== '' || url.password !== '') return refuse('The address must not carry a user name or password');
  if (hasLongHost(url.href)) return refuse(`The address has a host of more than ${MAX_HOST_CHARACTERS} characters: ${written.slice(0, 200)}`);
  const segment = findAddedDotSegment(written, () => fill(template, scope, 'url-outline').trim());
  if (segment !== null) return refuse(`A value makes the part "${segment}" of the path, which would call another address`);
  url.hash = '';
  const added = query === undefined ? '' : encodeFields(query, scope);
  if (added !== '') url.search = url.search === '' ? added : `${url.search}&${added}`;
  return url.href.length > MAX_URL_CHARACTERS ? refuse(`The address is longer than ${MAX_URL_CHARACTERS} characters`) : { ok: true, value: url.href };
}

/**
 * The first dot segment (URL Standard: `.` or `..`, a dot also as %2e) of a path that is one only by a value in it. Values are encoded and
 * bring no slash, so the path and its outline have the same segments.
 */
function findAddedDotSegment(written: string, outline: () => string): string | null {
  const segments = pathSegments(written);
  if (!segments.some(isDotSegment)) return null;
  const authored = pathSegments(outline());
  return segments.find((segment, place) => isDotSegment(segment) && !isDotSegment(authored[place] ?? '')) ?? null;
}

/** Segments as a URL parser sees them: without tabs and line breaks, and with `\\` as a slash. */
function pathSegments(url: string): string[] {
  return (url.replace(/[\t\r\n]/g, '').split(/[?#]/, 1)[0] ?? '').split(/[/\\]/);
}

function isDotSegment(segment: string): boolean {
  return /^(?:\.|%2e){1,2}$/i.test(segment);
}

function buildBody(config: ForwardRequestConfig, scope: Scope): Part<{ text: string | null; contentType: string | null }> {
  const type = config.bodyType ?? 'json';
  if (!mayHaveBody(config.method) || type === 'none') return { ok: true, value: { text: null, contentType: null } };
  if (config.body === undefined && (config.method !== 'POST' || type !== 'json')) return { ok: true, value: { text: null, contentType: null } };
  const text = writeBody(config, type, scope);
  const bytes = Buffer.byteLength(text);
  if (bytes > MAX_BODY_BYTES) return refuse(`The body has ${bytes} bytes; at most ${MAX_BODY_BYTES} may be sent`);
  return { ok: true, value: { text, contentType: CONTENT_TYPES[type] } };
}

function writeBody({ body }: ForwardRequestConfig, type: keyof typeof CONTENT_TYPES, scope: Scope): string {
  switch (type) {
    case 'text':
      return fill(typeof body === 'string' ? body : JSON.stringify(body ?? ''), scope, 'text');
    case 'form':
      return encodeFields(body as Fields, scope);
    case 'json':
      // Without a body of its own a POST tells who and what the run is about.
      return JSON.stringify(body === undefined ? { run: scope.run, contact: scope.contact, event: scope.event } : fillJson(body, scope));
  }
}

/** Names in lower case. A value outside visible ASCII, blanks and tabs (RFC 9110 §5.5) is refused and names its header. */
function buildHeaders({ headers = {} }: ForwardRequestConfig, scope: Scope, idempotencyKey: string, contentType: string | null): Part<Record<string, string>> {
  const built: Record<string, string> = {
    'user-agent': 'onward',
    ...(contentType === null ? {} : { 'content-type': contentType }),
  };
  for (const [name, template] of Object.entries(headers)) {
    const value = fill(template, scope, 'text').replace(/^[ \t]+|[ \t]+$/g, '');
    if (!/^[\x20-\x7e\t]*$/.test(value)) return refuse(`The header ${name} holds a line break or a character outside visible ASCII`);
    built[name.toLowerCase()] = value;
  }
  built['idempotency-key'] = idempotencyKey;
  const bytes = Object.entries(built).reduce((sum, [name, value]) => sum + name.length + value.length + 4, 0);
  return bytes > MAX_HEADER_BYTES ? refuse(`The headers have ${bytes} bytes; at most ${MAX_HEADER_BYTES} may be sent`) : { ok: true, value: built };
}
