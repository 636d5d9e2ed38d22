import { fill } from '../../templates/fill.js';
import type { Scope } from '../../runtime/scope.js';
import type { Fields } from './forward-request.config.js';

/**
 * Named values as `name=value&…` (URL Standard, application/x-www-form-urlencoded, blanks as %20): filled as literal text and then encoded
 * once, so that the server decodes exactly what was meant. Null is left out, an empty text is kept, a list repeats its name.
 */
export function encodeFields(fields: Fields, scope: Scope): string {
  const pairs = Array.isArray(fields) ? fields.map(({ name, value }) => [name, value] as const) : Object.entries(fields);
  return pairs
    .flatMap(([name, value]) => (Array.isArray(value) ? value : [value]).map((one) => [name, one] as const))
    .flatMap(([name, value]) => (value === null ? [] : `${encode(name)}=${encode(typeof value === 'string' ? fill(value, scope, 'text') : String(value))}`))
    .join('&');
}

/** Also encodes what encodeURIComponent leaves and URL parsers treat unlike each other. Half a surrogate pair becomes U+FFFD. */
function encode(text: string): string {
  return encodeURIComponent(Buffer.from(text, 'utf8').toString('utf8')).replace(
    /[!'()*]/g,
    (character) => `%${character.charCodeAt(0).toString(16).toUpperCase()}`,
  );
}
