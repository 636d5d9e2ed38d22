/**
 * Finds the values of secrets in what came back, and puts `[secret <name>]` in their place.
 * A value is found as it is, percent- and form-encoded, escaped for JSON or HTML (mixtures of these included), in hex, and in base64 and base64url
 * wherever it stands in what was encoded (so also as the password of `user:password`). Of `Bearer <value>` and the like the value alone is
 * found too, of `Basic <base64>` what it holds, of a cookie each of its values.
 * Values shorter than 4 characters are found only where no letter or digit touches them, and only as text: `7` would otherwise be found in every number.
 * To be asked before a text is cut to a length: the first half of a value is not found.
 * Not promised: to find a value that the other side has changed in any other way (compressed, encrypted, reversed, cut).
 */
import type { SecretValue } from './fill-secrets.js';

export type Mask = {
  /** The text with every value masked. */
  text(text: string): string;
  /** JSON data with every text in it masked, names of fields too, and numbers that are a value. */
  json<Value>(value: Value): Value;
  /** The name of a secret whose value stands in the text, or null. */
  find(text: string): string | null;
};

const SHORT = 4;
/** A part of a value (behind `Bearer `, in a cookie) shorter than this is too common a text to be masked for its own sake. */
const SHORT_PART = 6;

export function createMask(secrets: readonly Pick<SecretValue, 'name' | 'value'>[]): Mask {
  // The longest first: of two values of which one begins with the other, the whole is masked.
  const known = secrets
    .flatMap(({ name, value }) => [value, ...partsOf(value)].map((text) => ({ name, text })))
    .filter(({ text }) => text !== '')
    .sort((a, b) => b.text.length - a.text.length);
  if (known.length === 0) return { text: (text) => text, json: (value) => value, find: () => null };
  const names = known.map(({ name }) => name);
  const any = new RegExp(known.map(({ text }) => `(${patternOf(text)})`).join('|'), 'gu');
  const nameOf = (groups: readonly unknown[]) => names[groups.findIndex((group) => group !== undefined)] ?? '';

  const maskText = (text: string) => text.replace(any, (_found, ...rest: unknown[]) => `[secret ${nameOf(rest)}]`);
  const maskNumber = (number: number): number | string => {
    const equal = known.find(({ text }) => text.length >= SHORT && /^[-\d.]+$/.test(text) && Number(text) === number);
    if (equal !== undefined) return `[secret ${equal.name}]`;
    const masked = maskText(String(number));
    return masked === String(number) ? number : masked;
  };
  const maskJson = (value: unknown): unknown => {
    if (typeof value === 'string') return maskText(value);
    if (typeof value === 'number') return maskNumber(value);
    if (Array.isArray(value)) return value.map(maskJson);
    if (typeof value !== 'object' || value === null) return value;
    return Object.fromEntries(Object.entries(value).map(([key, member]) => [maskText(key), maskJson(member)]));
  };
  return {
    text: maskText,
    json: <Value>(value: Value) => maskJson(value) as Value,
    find: (text) => {
      any.lastIndex = 0;
      const found = any.exec(text);
      return found === null ? null : nameOf(found.slice(1));
    },
  };
}

/** What of a value is a credential by itself. */
function partsOf(value: string): string[] {
  const credentials = /^[A-Za-z][A-Za-z0-9-]{2,30} +(\S.*)$/s.exec(value)?.[1]?.trim();
  const cookies = /^[^\s=;,]+=[^;]*(?:; *[^\s=;,]+=[^;]*)*;?$/.test(value) ? value.split(';').map((pair) => pair.slice(pair.indexOf('=') + 1).trim()) : [];
  const basic = [value, credentials ?? ''].flatMap((text) => {
    const pair = /^[A-Za-z0-9+/_-]+=*$/.test(text) ? Buffer.from(text, 'base64').toString('utf8') : '';
    return /^[\P{Cc}]+$/u.test(pair) && pair.includes(':') && !pair.includes('\ufffd') ? [pair, pair.slice(pair.indexOf(':') + 1)] : [];
  });
  return [credentials ?? '', ...cookies, ...basic].filter((part) => part.length >= SHORT_PART);
}

function patternOf(value: string): string {
  const plain = [...value].map(anyForm).join('');
  if (value.length < SHORT) return `(?<![\\p{L}\\p{N}])${plain}(?![\\p{L}\\p{N}])`;
  const bytes = Buffer.from(value, 'utf8');
  const hex = bytes.toString('hex');
  return [plain, hex, hex.toUpperCase(), ...[0, 1, 2].map((offset) => base64At(bytes, offset))].join('|');
}

const JSON_ESCAPES: Readonly<Record<string, string>> = { '\n': 'n', '\r': 'r', '\t': 't', '\b': 'b', '\f': 'f', '"': '"', '/': '/' };
const HTML_NAMES: Readonly<Record<string, string>> = { '&': 'amp', '<': 'lt', '>': 'gt', '"': 'quot', "'": 'apos' };

/** One character in every way it may be written. A letter or digit is written as it is. */
function anyForm(character: string): string {
  if (/^[A-Za-z0-9]$/.test(character)) return character;
  const bytes = Buffer.from(character, 'utf8');
  const code = character.codePointAt(0) ?? 0;
  const percent = [...bytes].map((byte) => `%${anyCase(byte.toString(16).padStart(2, '0'))}`).join('');
  const unicode = [...Array(character.length).keys()].map((at) => `\\\\{1,3}u${anyCase(character.charCodeAt(at).toString(16).padStart(4, '0'))}`).join('');
  const forms = [percent, unicode, `&#0*${code};`, `&#[xX]0*${anyCase(code.toString(16))};`];
  const escape = JSON_ESCAPES[character];
  if (escape !== undefined) forms.push(`\\\\{1,3}${quote(escape)}`);
  const html = HTML_NAMES[character];
  if (html !== undefined) forms.push(`&${html};`);
  if (character === '\\') forms.push('\\\\{2,4}');
  if (character === ' ') forms.push('\\+');
  if (character === '\n') forms.push('\\r\\n');
  // UTF-8 read as Latin-1, as headers are.
  if (code > 0x7f) forms.push(quote(bytes.toString('latin1')));
  forms.push(quote(character));
  return `(?:${forms.join('|')})`;
}

/**
 * The characters of base64 (RFC 4648 §4 and §5, also percent-encoded or with `\/`) that depend on these bytes alone, when as many bytes stand
 * before them as `offset` says, modulo 3.
 */
function base64At(bytes: Buffer, offset: number): string {
  const text = Buffer.concat([Buffer.alloc(offset), bytes]).toString('base64').replace(/=+$/, '');
  const first = Math.ceil((offset * 8) / 6);
  const last = Math.floor(((offset + bytes.length) * 8) / 6);
  return [...text.slice(first, last)]
    .map((character) => (character === '+' ? '(?:[+-]|%2[bB])' : character === '/' ? '(?:\\\\?/|_|%2[fF])' : character))
    .join('');
}

function anyCase(hex: string): string {
  return hex.replace(/[a-f]/g, (letter) => `[${letter}${letter.toUpperCase()}]`);
}

/** Characters that mean something in a pattern, and every one that is not plain ASCII, by their code. */
function quote(text: string): string {
  return [...text].map((character) => (/^[A-Za-z0-9]$/.test(character) ? character : `\\u{${character.codePointAt(0)?.toString(16)}}`)).join('');
}
