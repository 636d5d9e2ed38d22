import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { closeEgress, sendRequest } from '../src/send-request.js';
import { allow, answerNames, get, type LocalTarget, openHttpTarget } from './local-target.js';
import { NOTHING_ALLOWED } from '../src/allow-list.js';

let listener: LocalTarget;
let redirector: LocalTarget;
beforeAll(async () => {
  listener = await openHttpTarget((_, response) => response.end('inside'));
  redirector = await openHttpTarget((seen, response) => {
    const url = new URL(seen.url, 'http://redirector');
    response.writeHead(Number(url.searchParams.get('status')), { location: url.searchParams.get('to') ?? '' }).end();
  });
});
afterAll(async () => {
  await closeEgress();
  await Promise.all([listener.close(), redirector.close()]);
});

/** `PORT` stands for the listener's port. */
const LITERALS = [
  'http://127.0.0.1:PORT/',
  'http://127.0.0.1/',
  'http://127.0.0.2:PORT/',
  'http://127.255.255.254:PORT/',
  'http://2130706433:PORT/',
  'http://017700000001:PORT/',
  'http://0177.0.0.1:PORT/',
  'http://0177.0.0.0x1:PORT/',
  'http://0x7f.1:PORT/',
  'http://0x7f000001:PORT/',
  'http://0x7F.0x0.0x0.0x1:PORT/',
  'http://127.1:PORT/',
  'http://127.0.1:PORT/',
  'http://①②⑦.⓪.⓪.①:PORT/',
  'http://127。0。0。1:PORT/',
  'http://127.0.0.1:PORT\t/',
  'http://127.0.0.1.:PORT/',
  'ht\ntp://127.0.0.1:PORT/',
  '  http://127.0.0.1:PORT/',
  'HTTP://127.0.0.1:PORT/',
  'http:\\\\127.0.0.1:PORT\\',
  'http:127.0.0.1:PORT',
  'http:/127.0.0.1:PORT/',
  'http://%31%32%37.0.0.1:PORT/',
  'http://127.0.0.1:PORT#@example.test/',
  'http://127.0.0.1:PORT?@example.test/',
  'http://0:PORT/',
  'http://0.0.0.0:PORT/',
  'http://0.1.2.3:PORT/',
  'http://[::]:PORT/',
  'http://[::1]:PORT/',
  'http://[0:0:0:0:0:0:0:1]:PORT/',
  'http://[::ffff:127.0.0.1]:PORT/',
  'http://[::ffff:7f00:1]:PORT/',
  'http://[::7f00:1]:PORT/',
  'http://[::127.0.0.1]:PORT/',
  'http://[::ffff:0:127.0.0.1]:PORT/',
  'http://[64:ff9b::7f00:1]:PORT/',
  'http://[64:ff9b::a9fe:a9fe]/',
  'http://[64:ff9b::10.0.0.1]/',
  'http://[64:ff9b:1::1]/',
  'http://[64:ff9b:1:7f00:0:100::]/',
  'http://[2002:7f00:1::]/',
  'http://[2002:a9fe:a9fe::1]/',
  'http://[2002:0808:0808::1]/',
  'http://[2001:0:7f00:1::1]/',
  'http://[2001::1]/',
  'http://[2001:2::1]/',
  'http://[2001:db8::1]/',
  'http://[2001:470:1::5efe:7f00:1]/',
  'http://[2001:470:1::200:5efe:10.0.0.1]/',
  'http://[fe80::1]/',
  'http://[fe80::5efe:127.0.0.1]/',
  'http://[fec0::1]/',
  'http://[fc00::1]/',
  'http://[fd12:3456::1]/',
  'http://[fd00:ec2::254]/latest/meta-data/',
  'http://[ff02::1]/',
  'http://[100::1]/',
  'http://[3fff::1]/',
  'http://[5f00::1]/',
  'http://169.254.169.254/latest/meta-data/',
  'http://169.254.169.254./',
  'http://0xA9FEA9FE/',
  'http://2852039166/',
  'http://169.254.170.2/',
  'http://[::ffff:a9fe:a9fe]/',
  'http://100.100.100.200/latest/meta-data/',
  'http://168.63.129.16/',
  'http://10.0.0.1/',
  'http://10.255.255.255/',
  'http://172.16.0.1/',
  'http://172.31.255.255/',
  'http://192.168.1.1/',
  'http://100.64.0.1/',
  'http://192.0.0.8/',
  'http://192.0.2.1/',
  'http://192.88.99.1/',
  'http://198.18.0.1/',
  'http://198.51.100.7/',
  'http://203.0.113.7/',
  'http://224.0.0.1/',
  'http://239.255.255.250:1900/',
  'http://240.0.0.1/',
  'http://255.255.255.255/',
  'https://127.0.0.1:PORT/',
  // ports of our own and of others that do not speak HTTP, on a public address
  'http://1.1.1.1:25/',
  'http://1.1.1.1:110/',
  'http://1.1.1.1:22/',
  'http://1.1.1.1:23/',
  'http://1.1.1.1:143/',
  'http://1.1.1.1:465/',
  'http://1.1.1.1:587/',
  'http://1.1.1.1:993/',
  'http://1.1.1.1:995/',
  'http://1.1.1.1:3103/',
  'http://1.1.1.1:5432/',
  'http://1.1.1.1:6379/',
  'http://1.1.1.1:0/',
  'http://mail.example.test:25/',
  // names that are this machine, and metadata by name
  'http://localhost:PORT/',
  'http://LOCALHOST:PORT/',
  'http://localhost.:PORT/',
  'http://anything.localhost:PORT/',
  'http://ｌｏｃａｌｈｏｓｔ:PORT/',
  'http://metadata.google.internal/computeMetadata/v1/',
  'http://metadata.google.internal./',
  // other schemes
  'file:///etc/hosts',
  'gopher://127.0.0.1:6379/_INFO',
  'data:text/plain,x',
  'ftp://127.0.0.1/',
  'ws://127.0.0.1:PORT/',
  'http+unix://%2Fvar%2Frun%2Fdocker.sock/info',
  'unix:/var/run/docker.sock',
  'javascript:alert(1)',
] as const;

const USER_PARTS = [
  'http://user@127.0.0.1:PORT/',
  'http://u:p@example.test/',
  'http://1.1.1.1 &@127.0.0.1:PORT# @8.8.8.8/',
  'http://example.test:80@127.0.0.1:PORT/',
];

const NAMES: Record<string, readonly (readonly string[])[]> = {
  '127.0.0.1.nip.example.test': [['127.0.0.1']],
  'localtest.example.test': [['::1']],
  'mapped.example.test': [['::ffff:127.0.0.1']],
  'private.example.test': [['10.1.2.3']],
  'imds.example.test': [['169.254.169.254']],
  'mixed-a.example.test': [['93.184.216.34', '127.0.0.1']],
  'mixed-aaaa.example.test': [['93.184.216.34', '::1']],
  'mixed-last.example.test': [['93.184.216.34', '93.184.216.35', '2606:2800:220:1::1', 'fd00::1']],
  'zone.example.test': [['fe80::1%eth0']],
  'garbage.example.test': [['not an address']],
  'xn--bcher-kva.example.test': [['127.0.0.1']],
};

const at = (url: string) => url.replace('PORT', String(listener.port));

describe('F41: internal addresses', () => {
  it('holds at least eighty entries in its corpus', () => {
    expect(LITERALS.length + USER_PARTS.length + Object.keys(NAMES).length).toBeGreaterThanOrEqual(80);
  });

  it.each(LITERALS)('F41: %j is refused before anything is dialled', async (url) => {
    const { lookup, calls } = answerNames({});
    const result = await sendRequest(get(at(url)), { allow: NOTHING_ALLOWED, lookup });
    expect(result).toMatchObject({ kind: 'error', code: 'address_not_allowed', mayHaveBeenSent: false });
    expect(result.kind === 'error' && result.message).toMatch(/^Address not allowed: /);
    expect(calls).toEqual([]);
    expect(listener.connections()).toBe(0);
  });

  it.each(USER_PARTS)('F41: %j is refused for its user part', async (url) => {
    const result = await sendRequest(get(at(url)), { allow: NOTHING_ALLOWED });
    expect(result).toMatchObject({ kind: 'error', code: 'request_invalid', mayHaveBeenSent: false });
    expect(listener.connections()).toBe(0);
  });

  it.each(Object.keys(NAMES))('F41: the name %s is refused for what it resolves to', async (name) => {
    const { lookup, calls } = answerNames(NAMES);
    const result = await sendRequest(get(`http://${name}:${listener.port}/`), { allow: NOTHING_ALLOWED, lookup });
    expect(result).toMatchObject({ kind: 'error', code: 'address_not_allowed', mayHaveBeenSent: false });
    expect(calls).toEqual([name]);
    expect(listener.connections()).toBe(0);
  });

  it.each([301, 302, 303, 307, 308])('F41: a %i redirect to an inner address is refused and not dialled', async (status) => {
    const { lookup } = answerNames({ ...NAMES, 'redirector.example.test': [['127.0.0.1']] });
    // As a Location, `http:127.0.0.1` is a path on the redirecting host (WHATWG URL, "special relative or authority state").
    const inner = [...LITERALS.filter((url) => !/^http:\/?\d/.test(url)).map(at), ...Object.keys(NAMES).map((name) => `http://${name}:${listener.port}/`)];
    for (const to of inner) {
      const url = `http://redirector.example.test:${redirector.port}/?status=${status}&to=${encodeURIComponent(encodeHeader(to))}`;
      const result = await sendRequest(get(url, { followRedirects: true }), { allow: allow(`redirector.example.test:${redirector.port}`), lookup });
      expect(result, to).toMatchObject({ kind: 'error', code: 'address_not_allowed', mayHaveBeenSent: true });
    }
    expect(listener.connections()).toBe(0);
  });

  it('F41: every connection is judged by its own lookup, so a name that turns inward is refused the second time', async () => {
    const target = await openHttpTarget((_, response) => response.writeHead(200, { connection: 'close' }).end('ok'));
    const { lookup, calls } = answerNames({ 'rebind.example.test': [['127.0.0.1'], ['127.0.0.2']] });
    const url = `http://rebind.example.test:${target.port}/`;
    expect(await sendRequest(get(url), { allow: allow(target), lookup })).toMatchObject({ kind: 'response', status: 200 });
    await target.allSocketsClosed();
    expect(await sendRequest(get(url), { allow: allow(target), lookup })).toMatchObject({ kind: 'error', code: 'address_not_allowed', mayHaveBeenSent: false });
    expect(calls).toHaveLength(2);
    expect(target.connections()).toBe(1);
    await target.close();
  });

  it('F41: an allow-list re-enables exactly the named host', async () => {
    const target = await openHttpTarget((_, response) => response.end('ok'));
    const { lookup } = answerNames({ 'inner.example.test': [['127.0.0.1']], 'other.example.test': [['127.0.0.1']] });
    const options = { allow: allow(`inner.example.test:${target.port}`), lookup };
    expect(await sendRequest(get(`http://inner.example.test:${target.port}/`), options)).toMatchObject({ kind: 'response', status: 200 });
    expect(await sendRequest(get(`http://INNER.example.test.:${target.port}/`), options)).toMatchObject({ kind: 'response', status: 200 });
    for (const url of [`http://other.example.test:${target.port}/`, target.origin, `http://inner.example.test:${listener.port}/`]) {
      expect(await sendRequest(get(url), options), url).toMatchObject({ kind: 'error', code: 'address_not_allowed' });
    }
    expect(target.seen).toHaveLength(2);
    await target.close();
  });

  it('F41: a name that is allow-listed still cannot lead to a metadata address', async () => {
    const { lookup } = answerNames({ 'inner.example.test': [['169.254.169.254']] });
    const result = await sendRequest(get('http://inner.example.test/'), { allow: allow('inner.example.test', '0.0.0.0/0'), lookup });
    expect(result).toMatchObject({ kind: 'error', code: 'address_not_allowed', mayHaveBeenSent: false });
  });

  it('does not follow a proxy of the environment', async () => {
    const target = await openHttpTarget((_, response) => response.end('direct'));
    const before = listener.connections();
    const names = ['HTTP_PROXY', 'http_proxy', 'HTTPS_PROXY', 'ALL_PROXY'];
    for (const name of names) process.env[name] = listener.origin;
    try {
      const result = await sendRequest(get(target.origin), { allow: allow(target, listener) });
      expect(result.kind === 'response' && Buffer.from(result.body).toString()).toBe('direct');
    } finally {
      for (const name of names) delete process.env[name];
    }
    expect(listener.connections()).toBe(before);
    await target.close();
  });

  it('reaches the listener once it is allowed, so the zeros above mean something', async () => {
    expect(await sendRequest(get(listener.origin), { allow: allow(listener) })).toMatchObject({ kind: 'response', status: 200 });
    expect(listener.connections()).toBe(1);
  });
});

/** Header bytes are Latin-1, so a Location outside it goes percent-encoded, line breaks and tabs included. */
function encodeHeader(url: string): string {
  return url.replace(/[^\x20-\x7e]/gu, (char) => (/\s/u.test(char) ? '' : encodeURIComponent(char)));
}
