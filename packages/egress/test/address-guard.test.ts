import { describe, expect, it } from 'vitest';
import { isAddressAllowed, parseAddress } from '../src/address-guard.js';
import { NOTHING_ALLOWED } from '../src/allow-list.js';
import { findEmbeddedV4 } from '../src/embedded-v4.js';
import { allow } from './local-target.js';

const isAllowed = (text: string, port = 443, list = NOTHING_ALLOWED) => {
  const bytes = parseAddress(text);
  if (bytes === null) throw new Error(`not an address: ${text}`);
  return isAddressAllowed(bytes, port, list);
};

describe('the ranges', () => {
  it.each([
    ['0.0.0.0', '0.255.255.255', null, '1.0.0.0'],
    ['10.0.0.0', '10.255.255.255', '9.255.255.255', '11.0.0.0'],
    ['100.64.0.0', '100.127.255.255', '100.63.255.255', '100.128.0.0'],
    ['127.0.0.0', '127.255.255.255', '126.255.255.255', '128.0.0.0'],
    ['169.254.0.0', '169.254.255.255', '169.253.255.255', '169.255.0.0'],
    ['172.16.0.0', '172.31.255.255', '172.15.255.255', '172.32.0.0'],
    ['192.0.0.0', '192.0.0.255', '191.255.255.255', '192.0.1.0'],
    ['192.0.2.0', '192.0.2.255', '192.0.1.255', '192.0.3.0'],
    ['192.168.0.0', '192.168.255.255', '192.167.255.255', '192.169.0.0'],
    ['198.18.0.0', '198.19.255.255', '198.17.255.255', '198.20.0.0'],
    ['198.51.100.0', '198.51.100.255', '198.51.99.255', '198.51.101.0'],
    ['203.0.113.0', '203.0.113.255', '203.0.112.255', '203.0.114.0'],
    ['224.0.0.0', '255.255.255.255', '223.255.255.255', null],
    ['168.63.129.16', '168.63.129.16', '168.63.129.15', '168.63.129.17'],
    ['::', '1fff:ffff:ffff:ffff:ffff:ffff:ffff:ffff', null, '2000::'],
    ['2001::', '2001:1ff:ffff:ffff:ffff:ffff:ffff:ffff', '2000:ffff:ffff:ffff:ffff:ffff:ffff:ffff', '2001:200::'],
    ['2001:db8::', '2001:db8:ffff:ffff:ffff:ffff:ffff:ffff', '2001:db7:ffff:ffff:ffff:ffff:ffff:ffff', '2001:db9::'],
    ['2002::', '2002:ffff:ffff:ffff:ffff:ffff:ffff:ffff', '2001:ffff:ffff:ffff:ffff:ffff:ffff:ffff', '2003::'],
    ['3fff::', '3fff:fff:ffff:ffff:ffff:ffff:ffff:ffff', '3ffe:ffff:ffff:ffff:ffff:ffff:ffff:ffff', '3fff:1000::'],
    ['4000::', 'ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff', '3fff:ffff:ffff:ffff:ffff:ffff:ffff:ffff', null],
  ])('refuse %s to %s and end there', (first, last, before, after) => {
    expect(isAllowed(first)).toBe(false);
    expect(isAllowed(last)).toBe(false);
    if (before !== null) expect(isAllowed(before), before).toBe(true);
    if (after !== null) expect(isAllowed(after), after).toBe(true);
  });

  it('let public addresses through, also by NAT64', () => {
    for (const text of ['1.1.1.1', '93.184.216.34', '2606:4700:4700::1111', '::ffff:8.8.8.8', '64:ff9b::8.8.8.8']) expect(isAllowed(text), text).toBe(true);
  });

  it('refuse ports that are not for HTTP on public addresses too', () => {
    for (const port of [22, 23, 25, 110, 143, 465, 587, 993, 995, 3103, 5432, 6379]) expect(isAllowed('1.1.1.1', port), String(port)).toBe(false);
    for (const port of [80, 443, 3000, 8080, 8443]) expect(isAllowed('1.1.1.1', port), String(port)).toBe(true);
  });
});

describe('the allow-list', () => {
  it('opens a range on its port and nothing beside it', () => {
    const list = allow('10.1.2.0/24:8080');
    expect(isAllowed('10.1.2.7', 8080, list)).toBe(true);
    expect(isAllowed('::ffff:10.1.2.7', 8080, list)).toBe(true);
    expect(isAllowed('10.1.2.7', 8081, list)).toBe(false);
    expect(isAllowed('10.1.3.7', 8080, list)).toBe(false);
    expect(isAllowed('64:ff9b::10.1.2.7', 8080, list)).toBe(false);
  });

  it('opens every port but the refused ones when it names none', () => {
    const list = allow('10.1.2.3');
    expect(isAllowed('10.1.2.3', 80, list)).toBe(true);
    expect(isAllowed('10.1.2.3', 9_999, list)).toBe(true);
    expect(isAllowed('10.1.2.3', 5432, list)).toBe(false);
    expect(isAllowed('10.1.2.3', 5432, allow('10.1.2.3:5432'))).toBe(true);
  });

  it('does not take all of IPv6 for IPv4', () => {
    expect(isAllowed('fd00::1', 80, allow('[::/0]'))).toBe(true);
    expect(isAllowed('10.0.0.1', 80, allow('[::/0]'))).toBe(false);
  });

  it.each([
    '169.254.169.254',
    '100.100.100.200',
    '168.63.129.16',
    'fd00:ec2::254',
    'fe80::1',
    '::ffff:169.254.169.254',
    '64:ff9b::a9fe:a9fe',
    '2002:a9fe:a9fe::',
  ])('never opens %s', (text) => {
    expect(isAllowed(text, 80, allow('0.0.0.0/0', '[::/0]', '0.0.0.0/0:80', '[::/0]:80'))).toBe(false);
  });
});

describe('findEmbeddedV4', () => {
  it.each([
    ['::10.0.0.1', ['10.0.0.1']],
    ['::ffff:0:10.0.0.1', ['10.0.0.1']],
    ['64:ff9b::10.0.0.1', ['10.0.0.1']],
    ['64:ff9b:1:0a00:0:100::', ['10.0.0.1', '0.0.0.0']],
    ['64:ff9b:1::10.0.0.1', ['0.0.0.0', '10.0.0.1']],
    ['2002:0a00:1::5', ['10.0.0.1']],
    ['2001:0:0102:0304::f5ff:fffe', ['1.2.3.4', '10.0.0.1']],
    ['2001:470:1::5efe:10.0.0.1', ['10.0.0.1']],
    ['2001:470:1::200:5efe:10.0.0.1', ['10.0.0.1']],
    ['2606:4700:4700::1111', []],
    ['10.0.0.1', []],
  ])('finds in %s: %j', (text, expected) => {
    const bytes = parseAddress(text);
    expect(bytes && findEmbeddedV4(bytes).map((found) => [...found.subarray(12)].join('.'))).toEqual(expected);
  });
});
