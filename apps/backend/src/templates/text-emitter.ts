import { Shown } from './liquid-engine.js';
import { TemplateError } from './template-error.js';
import { checkSize, valueText } from './value-text.js';

/**
 * Where the filled text goes, which decides how values are written into it. The template's own text is never changed, but for `header`.
 * - `text`: as they are. `html`: escaped, so that no value becomes an element or leaves an attribute.
 * - `header`: as they are, and the whole becomes one line: runs of line breaks and control characters become one space (RFC 5322 §2.2).
 * - `url`: percent-encoded, as one component (RFC 3986 §2.1).
 * - `url-outline`: the letter x in place of every value. It shows what of a URL the author has written.
 * - `json`: as JSON values, or, inside a string of the template, as the inside of that string.
 */
export type OutputKind = 'text' | 'html' | 'header' | 'url' | 'url-outline' | 'json';

/** Characters of what one template is filled to. */
export const MAX_FILLED_CHARACTERS = 1_000_000;

const HTML_ESCAPES: Record<string, string> = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&#34;', "'": '&#39;', '`': '&#96;' };

/** Takes the pieces of one filling in order. Throws TemplateError when they come to too much. */
export class TextEmitter {
  buffer = '';
  /** Whether the template's own text has opened a JSON string and not closed it. */
  private isInString = false;

  constructor(private readonly kind: OutputKind) {}

  write(piece: unknown): void {
    this.buffer += piece instanceof Shown ? this.escape(piece.value) : this.literal(String(piece));
    if (this.buffer.length > MAX_FILLED_CHARACTERS)
      throw new TemplateError(`The filled text is longer than ${MAX_FILLED_CHARACTERS.toLocaleString('en')} characters`);
  }

  private literal(text: string): string {
    if (this.kind === 'json') for (const [mark] of text.matchAll(/\\.|"/gsu)) if (mark === '"') this.isInString = !this.isInString;
    return text;
  }

  private escape(value: unknown): string {
    checkSize(value, MAX_FILLED_CHARACTERS);
    switch (this.kind) {
      case 'text':
      case 'header':
        return valueText(value);
      case 'html':
        return valueText(value).replace(/[&<>"'`]/g, (character) => HTML_ESCAPES[character] ?? '');
      case 'url':
        return encodeURIComponent(valueText(value).replace(/\p{Surrogate}/gu, '\ufffd'));
      case 'url-outline':
        return 'x';
      case 'json':
        return this.isInString ? JSON.stringify(valueText(value)).slice(1, -1) : (JSON.stringify(value) ?? 'null');
    }
  }
}

/** Line breaks (U+0085, U+2028 and U+2029 among them) and every other control character. */
const BREAKS = /[\p{Cc}\u2028\u2029]+/gu;

/** Makes one line of a text. */
export function oneLine(text: string): string {
  return text.replace(BREAKS, ' ');
}
