/**
 * Checks the headers of a request and turns them into what is sent.
 * A value is visible ASCII, space and tab (RFC 9110 §5.5 allows no more that every receiver reads alike); anything else, line breaks above all, is
 * refused by the name of the header and never repaired. Headers that belong to the connection, and Host, are the engine's own.
 * The sentences name the header and never its value.
 */
const TOKEN = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/;
const VALUE = /^[\t\x20-\x7e]*$/;

const ENGINE_HEADERS: ReadonlySet<string> = new Set([
  'host',
  'content-length',
  'transfer-encoding',
  'connection',
  'keep-alive',
  'proxy-connection',
  'upgrade',
  'te',
  'trailer',
  'expect',
]);

const DEFAULTS: readonly (readonly [string, string])[] = [
  ['accept', '*/*'],
  ['accept-encoding', 'identity'],
  ['user-agent', 'Onward'],
];

export type CheckedHeaders = { readonly ok: true; readonly headers: Record<string, string> } | { readonly ok: false; readonly message: string };

/** Names come out in lower case; `accept`, `accept-encoding` (identity) and `user-agent` are filled in where they are missing. */
export function checkHeaders(given: Readonly<Record<string, string>>): CheckedHeaders {
  const checked = new Map<string, string>();
  for (const [name, value] of Object.entries(given)) {
    if (!TOKEN.test(name)) return { ok: false, message: `The header name ${JSON.stringify(name.slice(0, 100))} has characters that are not allowed` };
    const lower = name.toLowerCase();
    if (ENGINE_HEADERS.has(lower)) return { ok: false, message: `The header ${name} is set by the engine and cannot be given` };
    if (checked.has(lower)) return { ok: false, message: `The header ${name} is given twice` };
    if (!VALUE.test(value)) return { ok: false, message: `The header ${name} has a value with characters outside visible ASCII` };
    checked.set(lower, value);
  }
  for (const [name, value] of DEFAULTS) if (!checked.has(name)) checked.set(name, value);
  return { ok: true, headers: Object.fromEntries(checked) };
}
