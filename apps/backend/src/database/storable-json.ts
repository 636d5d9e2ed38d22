/** A NUL, or half of a surrogate pair. */
const UNSTORABLE = /\0|\p{Surrogate}/gu;
/** How JSON.stringify writes either; a pair stays as it is and never matches. A hit may also be text that talks of such an escape. */
const MAY_HOLD_ONE = /\\u(?:0000|d[89a-f][0-9a-f]{2})/i;

/**
 * The JSON text of a value as Postgres can keep it: jsonb takes neither U+0000 nor half a surrogate pair, which come from outside and from
 * texts cut at a length. Both become U+FFFD. Whatever is written to a json column goes through here.
 */
export function storableJson(value: unknown): string {
  const text = JSON.stringify(value) as string | undefined;
  if (text === undefined) return 'null';
  return MAY_HOLD_ONE.test(text) ? JSON.stringify(mended(JSON.parse(text) as unknown)) : text;
}

/** The same of a text by itself. */
export function storableText(text: string): string {
  return text.isWellFormed() && !text.includes('\0') ? text : text.replace(UNSTORABLE, '\uFFFD');
}

function mended(value: unknown): unknown {
  if (typeof value === 'string') return value.replace(UNSTORABLE, '\uFFFD');
  if (Array.isArray(value)) return value.map(mended);
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [key.replace(UNSTORABLE, '\uFFFD'), mended(item)]));
}
