import { randomBytes } from 'node:crypto';
import { describe, expect, it, test } from 'vitest';
import { percentEncoded } from '../src/encode-value.js';
import { createMask } from '../src/mask-secrets.js';

/** Values as people have them: tokens, passwords with every kind of character, a key of several lines. */
const CANARIES = [
  's3cr3t-F39',
  'Zq7!kP/+=&?#%$ x',
  'a"b\\c/d<e>f\'g&h',
  'hörnchen-✓-🎉-π',
  '0123456789abcdef0123456789ABCDEF',
  '918273645546372819',
  '-----BEGIN KEY-----\nMIIB+/8x\nq==\n-----END KEY-----',
  'tab\tand blank',
  'eyJhbGciOi.eyJzdWIi.sig-_nature',
  'AbC4',
  ...Array.from({ length: 10 }, () => randomBytes(9 + Math.floor(Math.random() * 30)).toString('base64')),
];

const python = (text: string) => JSON.stringify(text).replace(/[\u0080-\uffff]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`);
const html = (text: string) => text.replace(/[&<>"']/g, (one) => ({ '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;', "'": '&#39;' })[one] ?? one);
const inside = (json: string) => json.slice(1, -1);
const lowerPercent = (text: string) => text.replace(/%[0-9A-F]{2}/g, (one) => one.toLowerCase());

const ENCODINGS: Record<string, (value: string) => string> = {
  raw: (value) => value,
  percent: encodeURIComponent,
  'percent in lower case': (value) => lowerPercent(encodeURIComponent(value)),
  'percent of a whole address': encodeURI,
  form: (value) => new URLSearchParams({ v: value }).toString().slice(2),
  json: (value) => inside(JSON.stringify(value)),
  'json of python': (value) => inside(python(value)),
  'json of php': (value) => inside(python(value)).replaceAll('/', '\\/'),
  'json in json': (value) => inside(JSON.stringify(JSON.stringify(value))),
  html,
  'json in html': (value) => html(inside(JSON.stringify(value))),
  'json in an address': (value) => encodeURIComponent(inside(JSON.stringify(value))),
  'percent twice': (value) => encodeURIComponent(encodeURIComponent(value)),
  hex: (value) => Buffer.from(value).toString('hex'),
  'hex in upper case': (value) => Buffer.from(value).toString('hex').toUpperCase(),
  base64: (value) => Buffer.from(value).toString('base64'),
  'hex of json': (value) => Buffer.from(inside(JSON.stringify(value))).toString('hex'),
  base64url: (value) => Buffer.from(value).toString('base64url'),
};

describe('F39: every value is found in every encoding', () => {
  const mask = createMask(CANARIES.map((value, index) => ({ name: `s${index}`, value })));

  it.each(Object.keys(ENCODINGS))('F39: %s', (encoding) => {
    for (const [index, value] of CANARIES.entries()) {
      const encoded = ENCODINGS[encoding]?.(value) ?? '';
      const shown = mask.text(`before=${encoded}; after`);
      expect(shown, value).toContain(`[secret s${index}]`);
      expect(shown, value).not.toContain(encoded.slice(1, -1));
      expect(mask.find(`x ${encoded} y`), value).toBe(`s${index}`);
    }
  });

  it.each([0, 1, 2, 3, 4, 5])('F39: base64 of a value behind %i other bytes and before some', (before) => {
    for (const [index, value] of CANARIES.entries()) {
      const together = Buffer.from(`${'user:'.slice(0, before)}${value}!tail`);
      for (const encoding of ['base64', 'base64url'] as const) {
        const shown = mask.text(together.toString(encoding));
        expect(shown, value).toContain(`[secret s${index}]`);
        // What is left are the other bytes, and at either end a character that holds bits of both.
        expect(shown.replace(/\[secret s\d+\]/, '').replace(/=+$/, '').length).toBeLessThanOrEqual(Math.ceil((before * 8) / 6) + Math.ceil((5 * 8) / 6) + 1);
      }
    }
  });
});

test('F39: a body of JSON or a form that comes back in base64 as a whole shows no value', () => {
  const mask = createMask(CANARIES.map((value, index) => ({ name: `s${index}`, value })));
  for (const [index, value] of CANARIES.entries()) {
    for (const body of [JSON.stringify({ a: 1, b: [value] }), `a=1&b=${percentEncoded(value)}&c=2`]) {
      expect(mask.text(Buffer.from(body).toString('base64')), body).toContain(`[secret s${index}]`);
    }
  }
});

test('what is no value stays as it is', () => {
  const mask = createMask([{ name: 'a', value: 'AbCdEf' }]);
  for (const text of ['abcdef', 'AbCdE', 'AbC dEf', '[secret a]', '']) expect(mask.text(text)).toBe(text);
  expect(createMask([]).text('AbCdEf')).toBe('AbCdEf');
  expect(mask.find('nothing')).toBeNull();
});

test('of two values of which one begins with the other the whole is masked', () => {
  const mask = createMask([
    { name: 'short', value: 'token-1' },
    { name: 'long', value: 'token-123' },
  ]);
  expect(mask.text('token-123 token-1')).toBe('[secret long] [secret short]');
});

test('a value of fewer than four characters is masked only where no letter or digit touches it', () => {
  const mask = createMask([{ name: 'pin', value: '7a9' }]);
  expect(mask.text('7a9 x7a9 7a90 "7a9" pin=7a9&')).toBe('[secret pin] x7a9 7a90 "[secret pin]" pin=[secret pin]&');
});

test('F39: of credentials with a scheme the value alone is found, and of Basic what it holds', () => {
  const basic = `Basic ${Buffer.from('user:s3cr3t-F39').toString('base64')}`;
  const mask = createMask([
    { name: 'bearer', value: 'Bearer tok-8472-xyz' },
    { name: 'basic', value: basic },
    { name: 'cookie', value: 'sid=c00kie-val; theme=dark' },
  ]);
  expect(mask.text('invalid token tok-8472-xyz')).toBe('invalid token [secret bearer]');
  expect(mask.text('bad password s3cr3t-F39 of user:s3cr3t-F39')).toBe('bad password [secret basic] of [secret basic]');
  expect(mask.text('session c00kie-val')).toBe('session [secret cookie]');
  expect(mask.text(basic)).toBe('[secret basic]');
});

test('F39: in JSON data texts, names of fields and numbers are masked', () => {
  const mask = createMask([
    { name: 'pin', value: '48151623' },
    { name: 'long', value: '918273645546372819' },
    { name: 'word', value: 'hush-hush' },
  ]);
  const data: unknown = JSON.parse('{"a":["x hush-hush",48151623,918273645546372819,12],"hush-hush":{"__proto__":"hush-hush"},"n":null,"t":true}');
  expect(JSON.stringify(mask.json(data))).toBe(
    '{"a":["x [secret word]","[secret pin]","[secret long]",12],"[secret word]":{"__proto__":"[secret word]"},"n":null,"t":true}',
  );
});

describe('however a value and a text are made, masking ends and does not throw', () => {
  const json = JSON.stringify({ key: '{"type":"service_account","private":"a\\b/c \n"}'.repeat(100) });
  test.each([
    ['2,000 characters of Chinese', '秘'.repeat(2_000)],
    ['500 characters of Chinese', '秘密'.repeat(250)],
    ['8,000 marks', '"#$%&/()=?'.repeat(800)],
    ['2,000 marks', '"#$%&/()=?'.repeat(200)],
    ['JSON of 4,000 characters', json],
    ['JSON of 2,000 characters', json.slice(0, 2_000)],
    ['600 quotes', '"'.repeat(600)],
    ['3,000 backslashes', `${'\\'.repeat(3_000)}end`],
    ['16 backslashes', `a${'\\'.repeat(16)}z`],
    ['backslashes and quotes', `${'\\"'.repeat(30)}z`],
  ])('%s', { timeout: 30_000 }, (_what, value) => {
    const mask = createMask([{ name: 'big', value }]);
    const forms = [value, encodeURIComponent(value), inside(JSON.stringify(value)), inside(python(value)), Buffer.from(value).toString('hex')];
    for (const form of forms) expect(mask.text(`before ${form} after`)).toBe('before [secret big] after');
    for (const form of forms) expect(mask.json({ a: [form.repeat(3)] })).toEqual({ a: ['[secret big]'.repeat(3)] });
    // The last character of base64 may hold bits of what stands behind.
    for (const encoding of ['base64', 'base64url'] as const) expect(mask.text(Buffer.from(value).toString(encoding))).toMatch(/^\[secret big\].?=*$/);
  });

  test.each([
    ['16 backslashes against 60', `a${'\\'.repeat(16)}z`, `a${'\\'.repeat(60)}y az`],
    ['pairs of backslash and quote, escaped and not to the end', `${'\\"'.repeat(40)}z`, `${'\\\\\\\\"'.repeat(40)}y z`],
    ['quotes written by their code, and not to the end', `${'"'.repeat(40)}z`, `${'\\\\\\u0022'.repeat(40)}y z`],
  ])('%s', { timeout: 30_000 }, (_what, value, text) => {
    expect(createMask([{ name: 'big', value }]).text(text)).toBe(text);
  });
});

test('of two values that overlap nothing is left', () => {
  const mask = createMask([
    { name: 'one', value: 'abcdef-123' },
    { name: 'two', value: '-123456' },
  ]);
  expect(mask.text('x abcdef-123456 y')).toBe('x [secret one] y');
});

test('what cannot be searched is hidden as a whole, and counts as found', () => {
  const broken = {
    name: 'broken',
    get value(): string {
      throw new Error('no value');
    },
  };
  const mask = createMask([broken]);
  expect([mask.text('text'), mask.json({ a: 1 }), mask.find('text')]).toEqual(['[secret …]', '[secret …]', '…']);
  const deep: unknown[] = [];
  for (let at = deep, level = 0; level < 100_000; level += 1) {
    const next: unknown[] = [];
    at.push(next);
    at = next;
  }
  expect(createMask([{ name: 'a', value: 'AbCdEf' }]).json(deep)).toBe('[secret …]');
});
