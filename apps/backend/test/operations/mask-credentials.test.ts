import { isCredentialName, maskCredentials, maskCredentialsInText } from '@onward/contracts/credential-names';
import { describe, expect, test } from 'vitest';
import { writeNotice } from '../../src/notifications/write-notice.js';
import { createLogger } from '../../src/operations/logger.js';

const CREDENTIALS = [
  ...['authorization', 'Authorization', 'Proxy-Authorization', 'cookie', 'Set-Cookie', 'password', 'user_password', 'passwd', 'secret', 'client_secret'],
  ...[
    'clientSecret',
    'token',
    'access_token',
    'refreshToken',
    'X-Auth-Token',
    'tokens',
    'apiKey',
    'api_key',
    'X-Api-Key',
    'apikey',
    'privateKey',
    'credentials',
    'X-Auth',
    'X-Auth-Key',
    'X-Session-Id',
  ],
];

describe('values under names of credentials', () => {
  test.each(CREDENTIALS)('%s is masked at any depth', (name) => {
    expect(isCredentialName(name)).toBe(true);
    const data = { a: [{ [name]: 'canary' }, { [name]: { deep: 'canary' } }, { [name]: ['canary'] }], [name]: 'canary' };
    const masked = JSON.stringify(maskCredentials(data));
    expect(masked).not.toContain('canary');
    expect(masked.match(/\[masked\]/g)).toHaveLength(4);
    expect(JSON.stringify(data)).toContain('canary');
  });

  test.each(['secretary', 'tokenCount', 'key', 'passwordless', 'cookieBanner', 'author', 'name', 'idempotencyKey'])('%s is shown', (name) => {
    expect(maskCredentials({ [name]: 'shown' })).toEqual({ [name]: 'shown' });
  });

  test('a number is masked unless it counts tokens, and whether there is one is shown', () => {
    expect(maskCredentials({ password: 1234, tokens: 512, token: null, hasPassword: true, secret: false })).toEqual({
      password: '[masked]',
      tokens: 512,
      token: null,
      hasPassword: true,
      secret: false,
    });
  });

  test('dates, errors and what is no plain object stay what they are', () => {
    const [at, fault] = [new Date(0), new Error('x')];
    expect(maskCredentials({ at, fault, own: JSON.parse('{"__proto__":{"token":"canary"}}') as unknown })).toEqual({
      at,
      fault,
      own: JSON.parse('{"__proto__":{"token":"[masked]"}}') as unknown,
    });
  });

  test.each([
    ['https://a.example.test/x?a=1&access_token=canary&b=2#f', 'https://a.example.test/x?a=1&access_token=[masked]&b=2#f'],
    ['see /login?api%5Fkey=canary.', 'see /login?api%5Fkey=[masked]'],
    ['https://user:canary@a.example.test/', 'https://[masked]@a.example.test/'],
    ['mail to a@example.test about x=1', 'mail to a@example.test about x=1'],
  ])('in a text: %s', (text, masked) => {
    expect(maskCredentialsInText(text)).toBe(masked);
    expect(maskCredentials([{ text }])).toEqual([{ text: masked }]);
  });
});

test('a log line masks them, whoever logs a request by mistake', () => {
  const lines: string[] = [];
  const log = createLogger({ logLevel: 'trace' }, { write: (text) => void lines.push(text) });
  const request = { url: 'https://a.example.test/?token=canary', headers: { authorization: 'Bearer canary', 'x-api-key': 'canary', cookie: ['canary'] } };
  log.warn({ request, deep: { er: { still: { password: 'canary' } } } }, 'a line');
  log.error({ err: new Error('kept') }, 'a fault');
  expect(lines.join('')).not.toContain('canary');
  expect(lines[0]).toContain('"authorization":"[masked]"');
  expect(lines[1]).toContain('"message":"kept"');
});

test('a notice shows the failure without the credentials in its URLs', () => {
  const failure = { code: 'redirect_refused', message: 'The target answered 302 with Location https://b.example.test/?access_token=canary' } as const;
  const facts = { workflow: 'w', runId: 'r', contact: null, state: 'failed', node: 'n', nodeName: null, failure, at: new Date(0), link: 'http://x' } as const;
  const { text, html } = writeNotice(facts);
  expect(text + html).not.toContain('canary');
  expect(text).toContain('access_token=[masked]');
});
