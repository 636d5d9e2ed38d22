import { isIPv4, isIPv6 } from 'node:net';
import { describe, expect, it } from 'vitest';
import { parseAddress } from '../src/parse-address.js';

const hex = (text: string) => {
  const bytes = parseAddress(text);
  return bytes === null ? null : Buffer.from(bytes).toString('hex');
};

describe('parseAddress', () => {
  it.each([
    ['127.0.0.1', '00000000000000000000ffff7f000001'],
    ['255.255.255.255', '00000000000000000000ffffffffffff'],
    ['::ffff:127.0.0.1', '00000000000000000000ffff7f000001'],
    ['::', '00000000000000000000000000000000'],
    ['::1', '00000000000000000000000000000001'],
    ['2001:DB8::a:0:1', '20010db8000000000000000a00000001'],
    ['1:2:3:4:5:6:7:8', '00010002000300040005000600070008'],
    ['1:2:3:4:5:6:1.2.3.4', '00010002000300040005000601020304'],
    ['64:ff9b::1.2.3.4', '0064ff9b000000000000000001020304'],
    ['fe80::', 'fe800000000000000000000000000000'],
  ])('reads %s', (text, expected) => {
    expect(hex(text)).toBe(expected);
  });

  it.each([
    '',
    '127.1',
    '1.2.3.4.5',
    '256.0.0.1',
    '01.2.3.4',
    '1.2.3.4 ',
    '0x7f.0.0.1',
    '1..2.3',
    ':',
    ':::',
    '1::2::3',
    '1:2:3:4:5:6:7',
    '1:2:3:4:5:6:7:8:9',
    '1:2:3:4:5:6:7::8:9',
    '1:2:3:4:5:6:7::8',
    '1:2:3:4:5:6:7:8::',
    '12345::',
    'g::',
    'fe80::1%lo',
    '1.2.3.4::',
    '::1.2.3',
    '[::1]',
    'example.test',
  ])('finds no address in %j', (text) => {
    expect(hex(text)).toBeNull();
  });

  it('agrees with the platform about what an address is, over generated text', () => {
    const pieces = ['0', '1', 'ff', '00ff', '255', '256', ':', '::', '.', '1.2.3.4', 'ffff', '7f00', '00000', 'g'];
    let state = 12_345;
    const next = (bound: number) => {
      state = (state * 1_103_515_245 + 12_345) % 2_147_483_648;
      return Math.floor((state / 2_147_483_648) * bound);
    };
    let valid = 0;
    const disagreements: string[] = [];
    for (let i = 0; i < 50_000; i++) {
      const text = Array.from({ length: 1 + next(15) }, () => pieces[next(pieces.length)] ?? '').join('');
      const isAddress = isIPv4(text) || isIPv6(text);
      if (isAddress) valid++;
      if ((parseAddress(text) !== null) !== isAddress) disagreements.push(text);
    }
    expect(disagreements).toEqual([]);
    expect(valid).toBeGreaterThan(250);
  });
});
