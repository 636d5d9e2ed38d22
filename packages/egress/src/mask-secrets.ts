/**
 * Finds the values of secrets in what came back, and puts `[secret <name>]` in their place.
 * A value is found as it is, percent- and form-encoded, escaped for JSON or HTML (mixtures of these included), in hex, and in base64 and base64url
 * wherever it stands in what was encoded (so also as the password of `user:password`, or in a body of JSON or a form that was encoded as a whole). Of `Bearer <value>` and the like the value alone is
 * found too, of `Basic <base64>` what it holds, of a cookie each of its values.
 * Values shorter than 4 characters are found only where no letter or digit touches them, and only as text: `7` would otherwise be found in every number.
 * To be asked before a text is cut to a length: the first half of a value is not found.
 * Of a value of more than 2,000 characters, or one that a pattern of the above would be too long for, the plain forms alone are found.
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
/** Longer values, in characters, and those whose pattern would be longer than this are looked for in their plain forms alone. */
const MAX_PATTERN_VALUE = 2_000;
const MAX_PATTERN = 100_000;
/** So many backslashes in a row are looked for in every way they may be written. */
const MAX_BACKSLASHES = 16;
/** What is said in the place of a whole text in which it cannot be told where a value stands. */
const HIDDEN = '[secret …]';

type Known = {
  readonly name: string;
  readonly text: string;
  /** Null: only the `marks` themselves are found. */
  readonly pattern: RegExp | null;
  /** With a pattern: runs of letters and digits of which one stands in every text that it is found in, quick to look for. Without: the plain forms. */
  readonly marks: readonly string[];
};
type Span = { start: number; end: number; name: string };

/** Shows nothing. */
export const HIDE_ALL: Mask = { text: () => HIDDEN, json: <Value>() => HIDDEN as Value, find: () => '…' };

/** Never throws, nor does the mask: what cannot be searched is hidden as a whole, as `[secret …]`, and counts as found, under the name `…`. */
export function createMask(secrets: readonly Pick<SecretValue, 'name' | 'value'>[]): Mask {
  try {
    const mask = openMask(secrets);
    return {
      text: (text) => orElse(() => mask.text(text), HIDDEN),
      json: <Value>(value: Value) => orElse(() => mask.json(value), HIDDEN as Value),
      find: (text) => orElse(() => mask.find(text), '…'),
    };
  } catch {
    return HIDE_ALL;
  }
}

function orElse<Value>(read: () => Value, otherwise: Value): Value {
  try {
    return read();
  } catch {
    return otherwise;
  }
}

function openMask(secrets: readonly Pick<SecretValue, 'name' | 'value'>[]): Mask {
  const known = secrets
    .flatMap(({ name, value }) => [value, ...partsOf(value)].map((text): Known => ({ name, text, ...formsOf(text) })))
    .filter(({ text }) => text !== '');

  const maskText = (text: string): string => {
    let shown = '';
    let at = 0;
    for (const { start, end, name } of spansIn(text, known)) {
      shown += `${text.slice(at, start)}[secret ${name}]`;
      at = end;
    }
    return at === 0 ? text : shown + text.slice(at);
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
    find: (text) => spansIn(text, known)[0]?.name ?? null,
  };
}

/** Where values stand, in order. Of two that overlap one span is made, under the name of the one that begins first, of these the longest. */
function spansIn(text: string, known: readonly Known[]): Span[] {
  const found = known.flatMap((one) => (one.pattern === null ? plainSpans(text, one) : patternSpans(text, one, one.pattern)));
  const spans: Span[] = [];
  for (const span of found.sort((a, b) => a.start - b.start || b.end - a.end)) {
    const last = spans.at(-1);
    if (last === undefined || span.start >= last.end) spans.push({ ...span });
    else last.end = Math.max(last.end, span.end);
  }
  return spans;
}

function patternSpans(text: string, { marks, name }: Known, pattern: RegExp): Span[] {
  if (!marks.some((mark) => text.includes(mark))) return [];
  return [...text.matchAll(pattern)].map(({ 0: match, index }) => ({ start: index, end: index + match.length, name }));
}

function plainSpans(text: string, { marks, name }: Known): Span[] {
  return marks.flatMap((mark) => {
    const spans: Span[] = [];
    for (let at = text.indexOf(mark); at !== -1; at = text.indexOf(mark, at + mark.length)) spans.push({ start: at, end: at + mark.length, name });
    return spans;
  });
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
  const written = [...new Set([value, jsonEscaped(value), percentEncoded(value)])].map((text) => Buffer.from(text, 'utf8'));
  const hex = written.map((bytes) => bytes.toString('hex')).flatMap((text) => [text, text.toUpperCase()]);
  const base64 = written.flatMap((bytes) => [0, 1, 2].map((offset) => base64At(bytes, offset)));
  const plain = value.length <= MAX_PATTERN_VALUE && !value.includes('\\'.repeat(MAX_BACKSLASHES + 1)) ? anyForms(value) : null;
  if (plain !== null && value.length < SHORT) {
    return { pattern: new RegExp(`(?<![\\p{L}\\p{N}])${plain}(?![\\p{L}\\p{N}])`, 'gu'), marks: [longestRun(value)] };
  }
  const pattern = plain === null ? '' : [plain, ...hex, ...base64.map(anyBase64)].join('|');
  if (pattern !== '' && pattern.length <= MAX_PATTERN) return { pattern: new RegExp(pattern, 'gu'), marks: [value, ...hex, ...base64].map(longestRun) };
  return { pattern: null, marks: [...new Set([...plainForms(value), ...hex, ...base64.flatMap((text) => [text, toBase64Url(text)])])] };
}

/** How a value is most often written, letter by letter. */
function plainForms(value: string): string[] {
  const percent = [percentEncoded(value), encodeURIComponent(Buffer.from(value, 'utf8').toString('utf8'))];
  const json = jsonEscaped(value);
  const escaped = [json, json.replaceAll('/', '\\/')].flatMap((text) => [text, text.replace(/[\u0080-\uffff]/g, unicodeEscape)]);
  return [
    value,
    ...percent.flatMap((text) => [text, text.replaceAll('%20', '+')]).flatMap((text) => [text, text.replace(/%[0-9A-F]{2}/g, (one) => one.toLowerCase())]),
    ...escaped.flatMap((text) => [text, jsonEscaped(text)]),
  ];
}

function unicodeEscape(unit: string): string {
  return `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`;
}

function longestRun(text: string): string {
  return (text.match(/[A-Za-z0-9]+/g) ?? ['']).reduce((longest, run) => (run.length > longest.length ? run : longest));
}

const JSON_ESCAPES: Readonly<Record<string, string>> = { '\n': 'n', '\r': 'r', '\t': 't', '\b': 'b', '\f': 'f' };
const HTML_NAMES: Readonly<Record<string, string>> = { '&': 'amp', '<': 'lt', '>': 'gt', '"': 'quot', "'": 'apos' };
/** A backslash, itself perhaps percent-encoded or escaped for HTML: texts are encoded in layers. */
const BACKSLASH = '(?:\\\\|%(?:25){0,2}5[cC]|&#92;)';

/**
 * A text in every way it may be written. However long a text is compared with it, it is read in one way alone: a run of backslashes is one group,
 * together with those that escape the character behind it, so that nothing is tried over and over.
 */
function anyForms(value: string): string {
  return (value.match(/\\*(?:[^\\]|$)/gsu) ?? []).map(anyForm).join('');
}

/** Some backslashes and one other character, if any. A letter or digit is written as it is. */
function anyForm(text: string): string {
  const run = text.lastIndexOf('\\') + 1;
  const character = text.slice(run);
  if (character === '') return run === 0 ? '' : `${BACKSLASH}{${run},${4 * run}}`;
  if (/^[A-Za-z0-9]$/.test(character)) return run === 0 ? character : `${BACKSLASH}{${run},${4 * run}}${character}`;
  const bytes = Buffer.from(character, 'utf8');
  const code = character.codePointAt(0) ?? 0;
  const hexOf = (number: number, digits: number) => anyCase(number.toString(16).padStart(digits, '0'));
  const forms = [quote(character), [...bytes].map((byte) => `%(?:25){0,2}${hexOf(byte, 2)}`).join(''), `&#0*${code};`, `&#[xX]0*${hexOf(code, 1)};`];
  const html = HTML_NAMES[character];
  if (html !== undefined) forms.push(`&${html};`);
  if (character === ' ') forms.push('\\+');
  if (character === '\n') forms.push('\\r\\n');
  // UTF-8 read as Latin-1, as headers are.
  if (code > 0x7f) forms.push(quote(bytes.toString('latin1')));
  const escaped = [[...Array(character.length).keys()].map((at) => `u${hexOf(character.charCodeAt(at), 4)}`).join(`${BACKSLASH}{1,3}`)];
  const escape = JSON_ESCAPES[character];
  if (escape !== undefined) escaped.push(escape);
  if (run > 0) return `${BACKSLASH}{${run},${4 * run + 3}}(?:${[...forms, ...escaped].join('|')})`;
  const before = character === '"' || character === '/' ? `${BACKSLASH}{0,3}` : '';
  return `(?:${before}(?:${forms.join('|')})|${BACKSLASH}{1,6}(?:${escaped.join('|')}))`;
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

function toBase64Url(text: string): string {
  return text.replaceAll('/', '_').replaceAll('+', '-');
}

function anyCase(hex: string): string {
  return hex.replace(/[a-f]/g, (letter) => `[${letter}${letter.toUpperCase()}]`);
}

/** Characters that mean something in a pattern, and every one that is not plain ASCII, by their code. */
function quote(text: string): string {
  return [...text].map((character) => (/^[A-Za-z0-9]$/.test(character) ? character : `\\u{${character.codePointAt(0)?.toString(16)}}`)).join('');
}
