import { describe, expect, it } from 'vitest';
import { isHostListed, isPortListed, NOTHING_ALLOWED, parseAllowList } from '../src/allow-list.js';

const errorsOf = (text: string) => {
  const result = parseAllowList(text);
  return result.ok ? [] : result.errors;
};

describe('parseAllowList', () => {
  it('reads blank text as nothing allowed', () => {
    for (const text of ['', '  ', ',', ' , ']) expect(parseAllowList(text)).toEqual({ ok: true, allow: NOTHING_ALLOWED });
  });

  it('reads every form of entry', () => {
    const result = parseAllowList(
      '10.1.2.0/24:8080, 10.0.0.1 ,[fd00::1]:80,[fd12::/16],[fd13::]/16:90, Intern.Example.test:9000,bücher.example.test,localhost:3000',
    );
    expect(result.ok && result.allow.entries.map(({ kind, port }) => [kind, port])).toEqual([
      ['range', 8080],
      ['range', null],
      ['range', 80],
      ['range', null],
      ['range', 90],
      ['host', 9000],
      ['host', null],
      ['host', 3000],
    ]);
    if (!result.ok) return;
    expect(isHostListed(result.allow, 'intern.example.test', 9000)).toBe(true);
    expect(isHostListed(result.allow, 'intern.example.test', 9001)).toBe(false);
    expect(isHostListed(result.allow, 'sub.intern.example.test', 9000)).toBe(false);
    expect(isHostListed(result.allow, 'xn--bcher-kva.example.test', 443)).toBe(true);
    expect(isHostListed(result.allow, 'xn--bcher-kva.example.test', 25)).toBe(false);
    expect(isPortListed(result.allow, 8080)).toBe(true);
    expect(isPortListed(result.allow, 25)).toBe(false);
  });

  it.each([
    ['fd00::1', /brackets/],
    ['fd00::/8:80', /brackets/],
    ['[fd00::1', /brackets/],
    ['[10.0.0.1]:80', /brackets/],
    ['10.1.2.3/24', /first address of the range/],
    ['10.0.0.0/33', /not an address or CIDR/],
    ['[fd00::/129]', /not an address or CIDR/],
    ['10.0.0/8', /not an address or CIDR/],
    ['example.test/24', /not an address or CIDR/],
    ['10.0.0.1:0', /port/],
    ['10.0.0.1:65536', /port/],
    ['10.0.0.1:http', /host\[:port\]/],
    ['http://example.test', /host\[:port\]/],
    ['user@example.test', /host name/],
    ['*.example.test', /host name/],
    ['exa mple.test', /host\[:port\]/],
    ['127.1', /unusual spelling/],
    ['2130706433', /unusual spelling/],
    ['256.0.0.1', /host name/],
    ['169.254.169.254', /never be allowed/],
    ['169.254.0.0/16:80', /never be allowed/],
    ['[fe80::/64]', /never be allowed/],
    ['[fd00:ec2::254]:80', /never be allowed/],
    ['100.100.100.200', /never be allowed/],
    ['metadata.google.internal', /never be allowed/],
    ['METADATA.google.internal.:80', /never be allowed/],
  ])('says what is wrong with %j', (entry, expected) => {
    const errors = errorsOf(`10.0.0.1,${entry}`);
    expect(errors).toHaveLength(1);
    expect(errors[0]).toContain(`"${entry}"`);
    expect(errors[0]).toMatch(expected);
  });

  it('names every bad entry and not only the first', () => {
    expect(errorsOf('a b,10.0.0.1,*')).toHaveLength(2);
  });
});
