/**
 * Messages on the internal TCP connection, one after the other: `<byteLength>#<json>`, or `<byteLength>#<json of an object>\n<body>`. JSON text as it is
 * written here has no line break, so the first one ends it; the body is text of any kind, and is the field `body` of the object read. So a
 * body that is signed as text is neither quoted nor unquoted on its way.
 *
 * The length counts bytes of UTF-8, not characters, so a message may be cut anywhere, also inside a character. Everything
 * that comes in is bounded before it is kept: the length is refused as soon as its digits are read, memory grows with what
 * really arrived (never with what was announced), nesting is capped. Anything that breaks these rules throws CodecError;
 * there is no way to find the next message after that, so the caller closes the socket.
 *
 * Not promised: that a message is of any particular shape. That is checked by who knows the pattern.
 */
import { isUtf8 } from 'node:buffer';
import { MAX_MESSAGE_BYTES } from '@onward/contracts/frame';

/** Objects and arrays may be nested this deep on the wire. Deeper text can exhaust the stack of whoever walks the value. */
export const MAX_JSON_DEPTH = 64;

const FIRST_CAPACITY_BYTES = 4 * 1024;

const HASH = 0x23;
const DIGIT_0 = 0x30;
const DIGIT_9 = 0x39;
const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const OPEN_BRACKET = 0x5b;
const CLOSE_BRACKET = 0x5d;
const OPEN_BRACE = 0x7b;
const CLOSE_BRACE = 0x7d;

export type CodecFault = 'too_large' | 'too_deep' | 'malformed';

/** A message that may not travel. `code` says which rule it broke. */
export class CodecError extends Error {
  override readonly name = 'CodecError';
  constructor(
    readonly code: CodecFault,
    message: string,
  ) {
    super(message);
  }
}

/**
 * The bytes of one message, header included; with `body`, which the value then has no field for, as its text.
 * Throws CodecError `too_large` above MAX_MESSAGE_BYTES and `malformed` for a value JSON has no text for.
 */
export function encodeMessage(value: unknown, body?: string): Buffer {
  const text = body === undefined ? stringify(value) : `${stringify(value)}\n${body}`;
  const length = text.length > MAX_MESSAGE_BYTES ? text.length : Buffer.byteLength(text);
  if (length > MAX_MESSAGE_BYTES) throw new CodecError('too_large', `a message of at least ${length} bytes is over the limit of ${MAX_MESSAGE_BYTES}`);
  const header = `${length}#`;
  const bytes = Buffer.allocUnsafe(header.length + length);
  bytes.write(header, 'latin1');
  bytes.write(text, header.length, 'utf8');
  return bytes;
}

/** The JSON text of a value. Throws CodecError `malformed` for a value JSON has no text for (a cycle, a BigInt, undefined). */
export function stringify(value: unknown): string {
  let json: string | undefined;
  try {
    json = JSON.stringify(value);
  } catch (error) {
    throw new CodecError('malformed', `the value has no JSON text: ${error instanceof Error ? error.message : String(error)}`);
  }
  if (json === undefined) throw new CodecError('malformed', `the value has no JSON text: ${typeof value}`);
  return json;
}

/** The value of a JSON text that came from outside. Throws CodecError `too_deep` or `malformed`. */
export function parseJson(text: string): unknown {
  if (isTooDeep(text)) throw new CodecError('too_deep', `the message is nested deeper than ${MAX_JSON_DEPTH}`);
  try {
    return JSON.parse(text);
  } catch {
    throw new CodecError('malformed', 'the message is not JSON');
  }
}

/** One pass over the text before anything is built from it; brackets inside strings do not count. */
function isTooDeep(text: string): boolean {
  let depth = 0;
  for (let at = 0; at < text.length; at++) {
    const char = text.charCodeAt(at);
    if (char === QUOTE) at = endOfString(text, at);
    else if (char === OPEN_BRACE || char === OPEN_BRACKET) {
      depth++;
      if (depth > MAX_JSON_DEPTH) return true;
    } else if (char === CLOSE_BRACE || char === CLOSE_BRACKET) depth--;
  }
  return false;
}

/** Where the string that begins at `start` ends; the end of the text for one that does not. A quote behind an odd number of backslashes is in the string. */
function endOfString(text: string, start: number): number {
  for (let end = text.indexOf('"', start + 1); end !== -1; end = text.indexOf('"', end + 1)) {
    let backslashes = 0;
    while (text.charCodeAt(end - 1 - backslashes) === BACKSLASH) backslashes++;
    if (backslashes % 2 === 0) return end;
  }
  return text.length;
}

/**
 * Puts the chunks of one socket together again.
 * `push` answers the messages completed by the chunk, in order. It throws CodecError at the first fault, for good: messages
 * completed by the same chunk before the fault are not answered, and every later push throws the same error.
 */
export class MessageReader {
  #fault: CodecError | undefined;
  /** Digits of the length read so far; the value is complete once the `#` was seen. */
  #digits = 0;
  #length = 0;
  #isInBody = false;
  #body = Buffer.alloc(0);
  #filled = 0;

  push(chunk: Buffer): unknown[] {
    if (this.#fault) throw this.#fault;
    try {
      return this.#read(chunk);
    } catch (error) {
      this.#body = Buffer.alloc(0);
      if (error instanceof CodecError) this.#fault = error;
      throw error;
    }
  }

  #read(chunk: Buffer): unknown[] {
    const messages: unknown[] = [];
    let at = 0;
    while (at < chunk.length) {
      if (!this.#isInBody) at = this.#readHeader(chunk, at);
      if (!this.#isInBody) break;
      const take = Math.min(this.#length - this.#filled, chunk.length - at);
      if (this.#filled === 0 && take === this.#length) {
        messages.push(decode(chunk.subarray(at, at + take)));
        this.#startNext();
      } else {
        this.#keep(chunk, at, take);
        if (this.#filled === this.#length) {
          messages.push(decode(this.#body.subarray(0, this.#length)));
          this.#startNext();
        }
      }
      at += take;
    }
    return messages;
  }

  /** Reads digits and `#` from `at` on; answers where it stopped. */
  #readHeader(chunk: Buffer, from: number): number {
    let at = from;
    while (at < chunk.length) {
      const byte = chunk[at] as number;
      at++;
      if (byte === HASH) {
        if (this.#digits === 0) throw new CodecError('malformed', 'the length of a message is missing');
        this.#isInBody = true;
        return at;
      }
      if (byte < DIGIT_0 || byte > DIGIT_9) throw new CodecError('malformed', 'the length of a message is not a number');
      if (byte === DIGIT_0 && this.#digits === 0) throw new CodecError('malformed', 'the length of a message starts with a zero');
      this.#digits++;
      this.#length = this.#length * 10 + (byte - DIGIT_0);
      if (this.#length > MAX_MESSAGE_BYTES) throw new CodecError('too_large', `a message is over the limit of ${MAX_MESSAGE_BYTES} bytes`);
    }
    return at;
  }

  /** Doubling keeps the work linear and the memory within twice of what arrived, however small the chunks are. */
  #keep(chunk: Buffer, from: number, take: number): void {
    const needed = this.#filled + take;
    if (needed > this.#body.length) {
      const grown = Buffer.allocUnsafe(Math.min(this.#length, Math.max(needed, this.#body.length * 2, FIRST_CAPACITY_BYTES)));
      this.#body.copy(grown, 0, 0, this.#filled);
      this.#body = grown;
    }
    chunk.copy(this.#body, this.#filled, from, from + take);
    this.#filled = needed;
  }

  #startNext(): void {
    this.#digits = 0;
    this.#length = 0;
    this.#isInBody = false;
    this.#body = Buffer.alloc(0);
    this.#filled = 0;
  }
}

function decode(bytes: Buffer): unknown {
  if (!isUtf8(bytes)) throw new CodecError('malformed', 'the message is not UTF-8');
  const text = bytes.toString('utf8');
  const end = text.indexOf('\n');
  if (end === -1) return parseJson(text);
  const head = parseJson(text.slice(0, end));
  if (typeof head !== 'object' || head === null || Array.isArray(head) || Object.hasOwn(head, 'body')) {
    throw new CodecError('malformed', 'a body stands behind what is no object, or has one');
  }
  return { ...head, body: text.slice(end + 1) };
}
