/** The inside of a JSON string (RFC 8259 §7). */
export function jsonEscaped(value: string): string {
  return JSON.stringify(value).slice(1, -1);
}

/** Percent-encoded as one component (RFC 3986 §2.1), which is a form's encoding as well, blanks as %20. Half a surrogate pair becomes U+FFFD. */
export function percentEncoded(value: string): string {
  const text = Buffer.from(value, 'utf8').toString('utf8');
  return encodeURIComponent(text).replace(/[!'()*]/g, (character) => `%${character.charCodeAt(0).toString(16).toUpperCase()}`);
}
