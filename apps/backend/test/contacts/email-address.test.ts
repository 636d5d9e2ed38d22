import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { readEmailAddress } from '../../src/contacts/email-address.js';

describe('readEmailAddress', () => {
  it.each([
    ['ann@example.test', 'ann@example.test'],
    ["Ann.O'Neill+tag@Example.TEST", "ann.o'neill+tag@example.test"],
    ['a@bücher.example', 'a@xn--bcher-kva.example'],
    ['a@BÜCHER.example', 'a@xn--bcher-kva.example'],
    ['a@bu\u0308cher.example', 'a@xn--bcher-kva.example'],
    ['a@例え.テスト', 'a@xn--r8jz45g.xn--zckzah'],
    ['a@xn--bcher-kva.example', 'a@xn--bcher-kva.example'],
    ['a_b=c/d@sub.example.co', 'a_b=c/d@sub.example.co'],
    [`${'a'.repeat(64)}@example.test`, `${'a'.repeat(64)}@example.test`],
  ])('%j is %j', (text, address) => {
    expect(readEmailAddress(text)).toBe(address);
  });

  it.each([
    '',
    'ann',
    '@example.test',
    'ann@',
    'ann@localhost',
    'ann@example.test ',
    ' ann@example.test',
    'an n@example.test',
    'ann@exam ple.test',
    'ann@example..test',
    'ann@.example.test',
    'ann@example.test.',
    '.ann@example.test',
    'ann.@example.test',
    'a..b@example.test',
    'a@b@example.test',
    '"a b"@example.test',
    '"a@b"@example.test',
    'Ann <ann@example.test>',
    '<ann@example.test>',
    'ann@example.test,bob@example.test',
    'ann@example.test;bob@example.test',
    'ann(comment)@example.test',
    'ann@[127.0.0.1]',
    'ann@127.0.0.1',
    'ann@0x7f.1',
    'ann@example.0x7f',
    'ann@１２７.０.０.１',
    'ann@-example.test',
    'ann@example-.test',
    'ann@exa_mple.test',
    'ann@example.test/x',
    'ann@example.test?x',
    'ann@example.test:25',
    'ann@%65xample.test',
    'ann@example。test',
    'ann@example.test\0',
    'ann@example.test\u2028',
    'a@example.test\r\nRCPT TO:<x@evil.example.test>',
    'a\r\n@example.test',
    'é@example.test',
    'ann@\u202eexample.test',
    `${'a'.repeat(65)}@example.test`,
    `a@${'b'.repeat(64)}.test`,
    `a@${'bb.'.repeat(90)}test`,
  ])('F46: %j is no address', (text) => {
    expect(readEmailAddress(text)).toBeNull();
  });

  it('what comes out is ASCII without blanks, controls or brackets, fits SMTP, and is itself an address', () => {
    fc.assert(
      fc.property(
        fc.oneof(
          fc.emailAddress(),
          fc.string({ unit: 'binary', maxLength: 60 }).map((text) => `a@${text}.test`),
          fc.string({ unit: 'binary', maxLength: 60 }).map((text) => `${text}@example.test`),
        ),
        (text) => {
          const address = readEmailAddress(text);
          if (address === null) return true;
          return (
            /^[\x21-\x7e]+$/.test(address) &&
            !/[<>,;:"()[\]\\]/.test(address) &&
            address.length <= 254 &&
            address === address.toLowerCase() &&
            readEmailAddress(address) === address
          );
        },
      ),
      { numRuns: 3_000 },
    );
  });
});
