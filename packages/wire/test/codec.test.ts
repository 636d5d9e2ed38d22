import { MAX_MESSAGE_BYTES } from '@onward/contracts/frame';
import { describe, expect, test } from 'vitest';
import { CodecError, MAX_JSON_DEPTH, MessageReader, encodeMessage, parseJson } from '../src/codec.js';

const MESSAGES = [{ a: 'Zoë 今日は 🎉' }, [1, 2.5, null, true], 'é', '', 0, { nested: { list: [[], {}, '{[#"\\'] } }, '12#"'];

function faultOf(run: () => unknown): string {
  try {
    run();
  } catch (error) {
    if (error instanceof CodecError) return error.code;
    throw error;
  }
  return 'none';
}

function nested(depth: number): string {
  return '['.repeat(depth) + ']'.repeat(depth);
}

function framed(json: string): Buffer {
  return Buffer.from(`${Buffer.byteLength(json)}#${json}`);
}

describe('a message', () => {
  test('carries its length in bytes, not in characters', () => {
    expect(encodeMessage('é').toString('utf8')).toBe('4#"é"');
  });

  test('at the limit travels, one byte more is refused before anything is written', () => {
    const largest = 'x'.repeat(MAX_MESSAGE_BYTES - 2);
    expect(new MessageReader().push(encodeMessage(largest))).toEqual([largest]);
    expect(faultOf(() => encodeMessage(`${largest}x`))).toBe('too_large');
    expect(faultOf(() => encodeMessage('é'.repeat(MAX_MESSAGE_BYTES / 2)))).toBe('too_large');
  });

  test('may have a body behind it, which is text as it stands and counts for the limit', () => {
    const bytes = encodeMessage({ id: 'a' }, '{"b":\n"é"}');
    expect(bytes.toString('utf8')).toBe('22#{"id":"a"}\n{"b":\n"é"}');
    expect(new MessageReader().push(bytes)).toEqual([{ id: 'a', body: '{"b":\n"é"}' }]);
    expect(new MessageReader().push(encodeMessage({ id: 'a' }, ''))).toEqual([{ id: 'a', body: '' }]);
    expect(faultOf(() => encodeMessage({}, 'x'.repeat(MAX_MESSAGE_BYTES - 3)))).toBe('none');
    expect(faultOf(() => encodeMessage({}, 'x'.repeat(MAX_MESSAGE_BYTES - 2)))).toBe('too_large');
  });

  test('has a body whose depth is not looked at before somebody reads it', () => {
    const deep = nested(MAX_JSON_DEPTH + 1);
    const [message] = new MessageReader().push(encodeMessage({}, deep));
    expect(message).toEqual({ body: deep });
    expect(faultOf(() => parseJson(deep))).toBe('too_deep');
  });

  test('that JSON has no text for is refused', () => {
    const cycle: Record<string, unknown> = {};
    cycle['self'] = cycle;
    for (const value of [undefined, cycle, { n: 1n }, () => 1]) expect(faultOf(() => encodeMessage(value))).toBe('malformed');
  });
});

describe('a reader', () => {
  const stream = Buffer.concat(MESSAGES.map((message) => encodeMessage(message)));

  test('gives the same messages whatever byte the stream is cut at', () => {
    for (let cut = 0; cut <= stream.length; cut++) {
      const reader = new MessageReader();
      expect([...reader.push(stream.subarray(0, cut)), ...reader.push(stream.subarray(cut))]).toEqual(MESSAGES);
    }
  });

  test('gives the same messages in chunks of every size, also of one byte', () => {
    for (let size = 1; size <= stream.length; size++) {
      const reader = new MessageReader();
      const read: unknown[] = [];
      for (let at = 0; at < stream.length; at += size) read.push(...reader.push(Buffer.from(stream.subarray(at, at + size))));
      expect(read).toEqual(MESSAGES);
    }
  });

  test('keeps nothing of a chunk the caller writes over', () => {
    const bytes = encodeMessage({ a: 'first' });
    const reader = new MessageReader();
    const reused = Buffer.from(bytes.subarray(0, 6));
    reader.push(reused);
    reused.fill(0x78);
    expect(reader.push(bytes.subarray(6))).toEqual([{ a: 'first' }]);
  });

  test('answers a message at once when its last byte is there', () => {
    const reader = new MessageReader();
    const bytes = encodeMessage(1);
    expect(reader.push(bytes.subarray(0, bytes.length - 1))).toEqual([]);
    expect(reader.push(bytes.subarray(bytes.length - 1))).toEqual([1]);
  });

  test('takes a large message byte by byte without quadratic work', () => {
    const text = 'x'.repeat(1_000_000);
    const bytes = encodeMessage(text);
    const reader = new MessageReader();
    const read: unknown[] = [];
    for (let at = 0; at < bytes.length; at++) read.push(...reader.push(bytes.subarray(at, at + 1)));
    expect(read).toEqual([text]);
  }, 5_000);

  test.each([
    ['an announced size over the limit', `${MAX_MESSAGE_BYTES + 1}#`, 'too_large'],
    ['an announced size over the limit while its digits still come', '99999999', 'too_large'],
    ['a length of more than ten digits', '99999999999#', 'too_large'],
    ['zeros without end', '0000000000000', 'malformed'],
    ['a leading zero', '01#1', 'malformed'],
    ['a length of zero', '0#', 'malformed'],
    ['no length', '#{}', 'malformed'],
    ['a negative length', '-1#', 'malformed'],
    ['a length that is no number', '1e3#', 'malformed'],
    ['a request of another protocol', 'GET / HTTP/1.1\r\n', 'malformed'],
    ['a length that cuts the JSON', '3#{"a":1}', 'malformed'],
    ['text that is no JSON', '4#nope', 'malformed'],
    ['a message nested too deep', framed(nested(MAX_JSON_DEPTH + 1)), 'too_deep'],
    ['a body behind what is no object', framed('[1]\nbody'), 'malformed'],
    ['a body behind null', framed('null\nbody'), 'malformed'],
    ['a body behind an object that has one', framed('{"body":"a"}\nb'), 'malformed'],
    ['a body behind nothing', framed('\n{}'), 'malformed'],
    ['bytes that are not UTF-8', Buffer.from([0x33, 0x23, 0x22, 0xff, 0x22]), 'malformed'],
  ])('refuses %s', (_what, bytes, code) => {
    expect(faultOf(() => new MessageReader().push(Buffer.from(bytes)))).toBe(code);
  });

  test('stays refused after a fault', () => {
    const reader = new MessageReader();
    expect(faultOf(() => reader.push(Buffer.from('x')))).toBe('malformed');
    expect(faultOf(() => reader.push(encodeMessage(1)))).toBe('malformed');
  });

  test('survives ten thousand messages in one chunk', () => {
    const bytes = Buffer.concat(Array.from({ length: 10_000 }, (_, n) => encodeMessage(n)));
    expect(new MessageReader().push(bytes)).toHaveLength(10_000);
  });
});

describe('depth', () => {
  test('up to the limit is taken, one more is not, and a bomb of a million is refused quickly', () => {
    expect(faultOf(() => parseJson(nested(MAX_JSON_DEPTH)))).toBe('none');
    expect(faultOf(() => parseJson(nested(MAX_JSON_DEPTH + 1)))).toBe('too_deep');
    expect(faultOf(() => parseJson('{"a":'.repeat(1_000_000)))).toBe('too_deep');
  });

  test('counts no bracket inside a string, nor after an escaped quote', () => {
    const text = JSON.stringify({ a: `${'['.repeat(200)}"${'{'.repeat(200)}\\` });
    expect(parseJson(text)).toEqual(JSON.parse(text));
  });

  test('counts siblings once', () => {
    expect(parseJson(`[${Array.from({ length: 500 }, () => '[]').join(',')}]`)).toHaveLength(500);
  });
});
