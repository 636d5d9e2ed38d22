/**
 * Finds the values of secrets in what came back, and puts `[secret <name>]` in their place.
 * A value is found as it is, percent- and form-encoded, escaped for JSON or HTML (mixtures of these included), in hex, and in base64 and base64url
 * wherever it stands in what was encoded (so also as the password of `user:password`, or in a body of JSON or a form that was encoded as a whole). Of `Bearer <value>` and the like the value alone is
 * found too, of `Basic <base64>` what it holds, of a cookie each of its values.
 * Values shorter than 4 characters are found only where no letter or digit touches them, and only as text: `7` would otherwise be found in every number.
 * To be asked before a text is cut to a length: the first half of a value is not found.
 * Not promised: to find a value that the other side has changed in any other way (compressed, encrypted, reversed, cut).
 */
import { jsonEscaped, percentEncoded } from './encode-value.js';
import type { SecretValue } from './secret-value.js';

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

type Known = {
  readonly name: string;
  readonly text: string;
  readonly pattern: string;
  /** Runs of letters and digits of which one stands in every text that the pattern is found in: quick to look for. */
  readonly marks: readonly string[];
};

export function createMask(secrets: readonly Pick<SecretValue, 'name' | 'value'>[]): Mask {
  // The longest first: of two values of which one begins with the other, the whole is masked.
  const known = secrets
    .flatMap(({ name, value }) => [value, ...partsOf(value)].map((text) => ({ name, text, ...formsOf(text) })))
    .filter(({ text }) => text !== '')
    .sort((a, b) => b.text.length - a.text.length);
  const compiled = new Map<string, RegExp>();

  /** The values that may stand in the text, and what finds them; null when it is certain that none does. */
  const search = (text: string): { among: readonly Known[]; any: RegExp } | null => {
    const among = known.filter(({ marks }) => marks.some((mark) => text.includes(mark)));
    if (among.length === 0) return null;
    const source = among.map(({ pattern }) => `(${pattern})`).join('|');
    const any = compiled.get(source) ?? new RegExp(source, 'gu');
    compiled.set(source, any);
    return { among, any };
  };
  const foundIn = (among: readonly Known[], groups: readonly unknown[]) => among[groups.findIndex((group) => group !== undefined)]?.name ?? '';

  const maskText = (text: string): string => {
    const searched = search(text);
    return searched === null ? text : text.replace(searched.any, (_found, ...groups: unknown[]) => `[secret ${foundIn(searched.among, groups)}]`);
  };
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
      const searched = search(text);
      const [found] = searched === null ? [] : text.matchAll(searched.any);
      return searched === null || found === undefined ? null : foundIn(searched.among, found.slice(1));
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

function formsOf(value: string): Pick<Known, 'pattern' | 'marks'> {
  const plain = [...value].map(anyForm).join('');
  if (value.length < SHORT) return { pattern: `(?<![\\p{L}\\p{N}])${plain}(?![\\p{L}\\p{N}])`, marks: [longestRun(value)] };
  const written = [...new Set([value, jsonEscaped(value), percentEncoded(value)])].map((text) => Buffer.from(text, 'utf8'));
  const hex = written.map((bytes) => bytes.toString('hex')).flatMap((text) => [text, text.toUpperCase()]);
  const base64 = written.flatMap((bytes) => [0, 1, 2].map((offset) => base64At(bytes, offset)));
  return { pattern: [plain, ...hex, ...base64.map(anyBase64)].join('|'), marks: [value, ...hex, ...base64].map(longestRun) };
}

function longestRun(text: string): string {
  return (text.match(/[A-Za-z0-9]+/g) ?? ['']).reduce((longest, run) => (run.length > longest.length ? run : longest));
}

const JSON_ESCAPES: Readonly<Record<string, string>> = { '\n': 'n', '\r': 'r', '\t': 't', '\b': 'b', '\f': 'f' };
const HTML_NAMES: Readonly<Record<string, string>> = { '&': 'amp', '<': 'lt', '>': 'gt', '"': 'quot', "'": 'apos' };
/** A backslash, itself perhaps percent-encoded or escaped for HTML: texts are encoded in layers. */
const BACKSLASH = '(?:\\\\|%(?:25){0,2}5[cC]|&#92;)';

/** One character in every way it may be written. A letter or digit is written as it is. */
function anyForm(character: string): string {
  if (/^[A-Za-z0-9]$/.test(character)) return character;
  if (character === '\\') return `${BACKSLASH}{1,4}`;
  const bytes = Buffer.from(character, 'utf8');
  const code = character.codePointAt(0) ?? 0;
  const hexOf = (number: number, digits: number) => anyCase(number.toString(16).padStart(digits, '0'));
  const forms = [
    quote(character),
    [...bytes].map((byte) => `%(?:25){0,2}${hexOf(byte, 2)}`).join(''),
    [...Array(character.length).keys()].map((at) => `${BACKSLASH}{1,3}u${hexOf(character.charCodeAt(at), 4)}`).join(''),
    `&#0*${code};`,
    `&#[xX]0*${hexOf(code, 1)};`,
  ];
  const escape = JSON_ESCAPES[character];
  if (escape !== undefined) forms.push(`${BACKSLASH}{1,3}${escape}`);
  const html = HTML_NAMES[character];
  if (html !== undefined) forms.push(`&${html};`);
  if (character === ' ') forms.push('\\+');
  if (character === '\n') forms.push('\\r\\n');
  // UTF-8 read as Latin-1, as headers are.
  if (code > 0x7f) forms.push(quote(bytes.toString('latin1')));
  return `${character === '"' || character === '/' ? `${BACKSLASH}{0,3}` : ''}(?:${forms.join('|')})`;
}

/** The characters of base64 (RFC 4648 §4) that depend on these bytes alone, when as many bytes stand before them as `offset` says, modulo 3. */
function base64At(bytes: Buffer, offset: number): string {
  const text = Buffer.concat([Buffer.alloc(offset), bytes])
    .toString('base64')
    .replace(/=+$/, '');
  return text.slice(Math.ceil((offset * 8) / 6), Math.floor(((offset + bytes.length) * 8) / 6));
}

/** The same as a pattern, in base64url (RFC 4648 §5), percent-encoded and with `\/` too. */
function anyBase64(text: string): string {
  return text.replaceAll('/', '(?:\\\\?/|_|%2[fF])').replaceAll('+', '(?:[+]|-|%2[bB])');
}

function anyCase(hex: string): string {
  return hex.replace(/[a-f]/g, (letter) => `[${letter}${letter.toUpperCase()}]`);
}

/** Characters that mean something in a pattern, and every one that is not plain ASCII, by their code. */
function quote(text: string): string {
  return [...text].map((character) => (/^[A-Za-z0-9]$/.test(character) ? character : `\\u{${character.codePointAt(0)?.toString(16)}}`)).join('');
}
