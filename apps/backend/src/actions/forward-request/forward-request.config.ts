import type { Json } from '@onward/contracts/json';
import { z } from 'zod';
import { TemplateError } from '../../templates/template-error.js';
import { secretsNamedIn, textsIn } from './secret-placeholders.js';

/** The longest time a request may take and the usual one, in ms, from dialling to the last byte of the answer. */
export const MAX_TIMEOUT_MS = 60_000;
export const DEFAULT_TIMEOUT_MS = 30_000;

/** The longest name of a host, in ASCII (RFC 1035 §2.3.4, written with dots). */
export const MAX_HOST_CHARACTERS = 253;

/** A header name is a token (RFC 9110 §5.6.2). */
const HEADER_NAME = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/;

/** Set by us or by the connection itself; what a journey writes there would break the request, or the promise of one key a step. */
const RESERVED_HEADERS: ReadonlySet<string> = new Set([
  'connection',
  'content-encoding',
  'content-length',
  'expect',
  'host',
  'idempotency-key',
  'keep-alive',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
]);

const headersSchema = z.record(z.string().max(200), z.string().max(8_192)).superRefine((headers, ctx) => {
  const seen = new Set<string>();
  for (const name of Object.keys(headers)) {
    const lower = name.toLowerCase();
    const refuse = (message: string) => ctx.addIssue({ code: 'custom', path: [name], message });
    if (!HEADER_NAME.test(name)) refuse('is not the name of a header');
    else if (RESERVED_HEADERS.has(lower) || lower.startsWith('proxy-')) refuse('cannot be set: it belongs to the connection or to us');
    else if (seen.has(lower)) refuse('is given twice, in different case');
    seen.add(lower);
  }
});

const scalarSchema = z.union([z.string().max(64_000), z.number(), z.boolean(), z.null()]);
const fieldValueSchema = z.union([scalarSchema, z.array(scalarSchema).max(200)]);
/** Named values: null is left out, an empty text is kept, a list repeats the name. The list form keeps an order of repeated names. */
const fieldsSchema = z.union([
  z.record(z.string().max(1_000), fieldValueSchema),
  z.array(z.strictObject({ name: z.string().max(1_000), value: fieldValueSchema })).max(200),
]);
export type Fields = z.infer<typeof fieldsSchema>;

const jsonTemplateSchema = z.unknown() as z.ZodType<Json>;

export const METHODS = ['GET', 'POST', 'PUT', 'PATCH', 'DELETE', 'HEAD'] as const;
export type Method = (typeof METHODS)[number];

/** GET and HEAD carry no body (RFC 9110 §9.3.1: it has no meaning there). */
export function mayHaveBody(method: Method): boolean {
  return method !== 'GET' && method !== 'HEAD';
}

export const forwardRequestConfigSchema = z
  .strictObject({
    /** A Liquid text. Scheme, host and port are written out; each value filled in is percent-encoded and cannot become a dot segment. */
    url: z.string().trim().min(1).max(8_192),
    method: z.enum(METHODS).default('POST'),
    headers: headersSchema.optional(),
    query: fieldsSchema.optional(),
    /** `json`: any JSON, its texts in Liquid. `text`: a Liquid text. `form`: named values as in `query`. */
    body: jsonTemplateSchema.optional(),
    bodyType: z.enum(['json', 'text', 'form', 'none']).optional(),
    timeoutMs: z.number().int().min(100).max(MAX_TIMEOUT_MS).default(DEFAULT_TIMEOUT_MS),
    followRedirects: z.boolean().default(false),
  })
  .superRefine(({ url, method, headers, query, body, bodyType }, ctx) => {
    for (const { path, reason } of findBadTemplates({ url, headers, query, body })) ctx.addIssue({ code: 'custom', path, message: reason });
    const refuse = (path: string, message: string) => ctx.addIssue({ code: 'custom', path: [path], message });
    if (!/^https?:\/\//i.test(url)) refuse('url', 'must begin with http:// or https://, written out');
    else if (writtenOrigin(url) === null) refuse('url', 'must name its host in plain text, ended by a slash before the first value');
    else if (writtenOrigin(url)?.includes('@')) refuse('url', 'must not carry a user name or password; write the header Authorization');
    else if (hasLongHost(writtenOrigin(url) ?? '')) refuse('url', `must name a host of at most ${MAX_HOST_CHARACTERS} characters`);
    if (body === undefined) return;
    if (!mayHaveBody(method)) return refuse('body', `${method} carries no body`);
    if (bodyType === 'none') return refuse('body', 'cannot be given with bodyType none');
    if (bodyType === 'text' && typeof body !== 'string') return refuse('body', 'must be a text with bodyType text');
    if (bodyType === 'form' && !fieldsSchema.safeParse(body).success) refuse('body', 'must be named values with bodyType form');
  });

/**
 * Scheme and authority of an address (RFC 3986 §3.2) as its author wrote them; null when there are none, or when a value or a blank stands
 * in them. A `\\` ends the authority as a `/` does (URL Standard).
 */
export function writtenOrigin(url: string): string | null {
  const origin = /^https?:\/\/[^/?#\\\s]+(?=[/?#\\]|$)/i.exec(url)?.[0];
  return origin === undefined || /\{[{%]/.test(origin) ? null : origin;
}

/** Whether the host of an address is longer than a name can be. What is no address has none. */
export function hasLongHost(url: string): boolean {
  return URL.canParse(url) && new URL(url).hostname.length > MAX_HOST_CHARACTERS;
}

/** Every text that is not readable Liquid, or does not name its secrets plainly, by where it stands: found when the workflow is published and not by a run. */
function findBadTemplates(part: unknown): { path: string[]; reason: string }[] {
  return textsIn(part).flatMap(({ path, text }) => {
    try {
      const { isUnclear } = secretsNamedIn(text);
      return isUnclear ? [{ path, reason: 'must name each secret plainly, as {{ secrets.name }}' }] : [];
    } catch (error) {
      if (!(error instanceof TemplateError)) throw error;
      return [{ path, reason: error.message }];
    }
  });
}

export type ForwardRequestConfig = z.infer<typeof forwardRequestConfigSchema>;

/** The secrets that a configuration names, each with its field and the origin its request goes to as written. */
export function namesSecrets({ url, headers, query, body }: ForwardRequestConfig): { name: string; path: string[]; origin: string }[] {
  const written = writtenOrigin(url) ?? '';
  const origin = URL.canParse(written) ? new URL(written).origin : written;
  return textsIn({ url, headers, query, body }).flatMap(({ path, text }) => secretsNamedIn(text).names.map((name) => ({ name, path, origin })));
}
