import { describe, expect, it } from 'vitest';
import { domainOf, readMailbox, senderOf } from '../../src/mail/read-mailbox.js';

describe('reading a mailbox', () => {
  it.each([
    ['post@example.test', '', 'post@example.test'],
    [' Onward <onward@localhost> ', 'Onward', 'onward@localhost'],
    ['"Shop, Inc. \\"A\\"" <a.b+c@Example.test>', 'Shop, Inc. "A"', 'a.b+c@example.test'],
    ['Žižkov 🎉 <a@bücher.example.test>', 'Žižkov 🎉', 'a@xn--bcher-kva.example.test'],
    ['<a@example.test>', '', 'a@example.test'],
  ])('%j is one', (text, name, address) => {
    expect(readMailbox(text)).toEqual({ name, address });
  });

  it.each([
    [''],
    ['Onward'],
    ['a@'],
    ['@example.test'],
    ['a b@example.test'],
    ['a@example.test, b@example.test'],
    ['a@example.test\r\nBcc: x@evil.example.test'],
    ['A\nB <a@example.test>'],
    ['A\u2028B <a@example.test>'],
    ['A <a@example.test> <b@example.test>'],
    ['A <a@example.test>, B'],
    ['"A <a@example.test>'],
    ['A < a@example.test >'],
    ['a@exam ple.test'],
    ['a@[127.0.0.1]'],
    ['"a b"@example.test'],
    ['a..b@example.test'],
    ['.a@example.test'],
    [`${'a'.repeat(250)}@example.test`],
  ])('%j is none', (text) => {
    expect(readMailbox(text)).toBeNull();
  });

  it('a sender that is none stops the start and names the setting', () => {
    expect(() => senderOf('nobody')).toThrow('MAIL_FROM');
    expect(domainOf(senderOf('Onward <onward@mail.example.test>'))).toBe('mail.example.test');
  });
});
