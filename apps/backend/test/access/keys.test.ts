import { existsSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { ensureFirstKey } from '../../src/access/ensure-first-key.js';
import { FirstKey } from '../../src/access/first-key.js';
import { keyOfHeader, mintKeyText } from '../../src/access/key-text.js';
import { rows } from '../../src/database/sql.js';
import { type BackendForTest, backendForTest } from '../backend-for-test.js';

type Made = { id: string; name: string; prefix: string; key: string };
type Listed = { items: { id: string; name: string; lastUsedAt: string | null; revokedAt: string | null }[] };

const keyFile = join(tmpdir(), `onward-first-key-${process.pid}`);
let backend: BackendForTest;
beforeAll(async () => {
  backend = await backendForTest({ ONWARD_FIRST_KEY_FILE: keyFile });
});
afterAll(async () => {
  await backend.close();
  rmSync(keyFile, { force: true });
});

const make = async (name: string) => (await backend.api<Made>('POST', '/api-keys', { name })).body;

describe('the guard', () => {
  const OPEN = ['/health', '/health/ready'];

  it('lets nobody into any route without a live key, whatever the key looks like', async () => {
    const revoked = await make('revoked');
    expect((await backend.api('DELETE', `/api-keys/${revoked.id}`)).status).toBe(204);
    const { body } = await backend.api<{ paths: Record<string, Record<string, unknown>> }>('GET', '//api/docs/openapi.json');
    const routes = Object.entries(body.paths).flatMap(([path, operations]) =>
      Object.keys(operations).map((method) => ({ method, path: path.replaceAll(/\{[^}]+\}/g, '0198c0de-0000-7000-8000-000000000000') })),
    );
    expect(routes.length).toBeGreaterThan(30);
    const keys = [null, revoked.key, mintKeyText().key, 'onw_', `${backend.apiKey} `.padEnd(60, 'x'), backend.apiKey.slice(0, -1)];
    for (const { method, path } of routes) {
      if (OPEN.includes(path)) continue;
      for (const key of keys) {
        const answer = await backend.api('POST' === method.toUpperCase() ? 'POST' : method.toUpperCase(), `/${path}`, undefined, { key });
        expect(answer.status, `${method} ${path} with ${key}`).toBe(401);
        expect(answer.headers.get('www-authenticate')).toContain('Bearer');
      }
    }
  });

  it.each([
    '//api/v1/contacts/',
    '//api/v1//contacts',
    '//api//v1/contacts',
    '//api/v1/contacts;x=1',
    '//api/v1/contacts%2f',
    '//api/v1/%63ontacts',
    '//API/V1/CONTACTS',
    '//api/v1/health/../contacts',
    '//health/%2e%2e/api/v1/contacts',
    '//api/v1/contacts?path=/health',
    '//api/v1/contacts/health',
    '//api/v1/contacts.json',
    '//api/v1/./contacts',
  ])('no spelling of a path gets around it: %s', async (path) => {
    for (const method of ['GET', 'HEAD', 'OPTIONS', 'POST', 'DELETE']) {
      const { status } = await backend.api(method, path, undefined, {
        key: null,
        headers: { 'x-http-method-override': 'GET', 'x-original-url': '/health', 'x-forwarded-prefix': '/health' },
      });
      expect([401, 404, 400, 405], `${method} ${path} gave ${status}`).toContain(status);
    }
  });

  it('refuses before it reads: a body that is too large is a 401 without a key', async () => {
    expect((await backend.api('POST', '/contacts', { filler: 'x'.repeat(300_000) }, { key: null })).status).toBe(401);
  });

  it.each(OPEN)('%s is open', async (path) => {
    expect((await backend.api('GET', `/${path}`, undefined, { key: null })).status).toBe(200);
  });

  it('takes a key as Bearer only, in any case of the word and by itself', () => {
    const { key } = mintKeyText();
    expect(keyOfHeader(`Bearer ${key}`, 'bearer')).toBe(key);
    expect(keyOfHeader(`bearer  ${key}`, 'bearer')).toBe(key);
    const basic = `Basic ${Buffer.from(`me:${key}`).toString('base64')}`;
    expect(keyOfHeader(basic, 'bearer')).toBeNull();
    expect(keyOfHeader(basic, 'bearer or basic')).toBe(key);
    for (const wrong of [undefined, '', key, 'Bearer', `Bearer ${key} ${key}`, `Bearer ${key}x`, `Token ${key}`, 'Basic !!!'])
      expect(keyOfHeader(wrong, 'bearer or basic')).toBeNull();
  });
});

describe('keys', () => {
  it('a key is shown once, is kept as a hash and lets its holder in', async () => {
    const made = await make('host system');
    expect(made.key).toMatch(/^onw_[A-Za-z0-9_-]{43}$/);
    expect(made.key.startsWith(made.prefix)).toBe(true);
    expect((await backend.api('GET', '/contacts', undefined, { key: made.key })).status).toBe(200);
    const listed = await backend.api('GET', '/api-keys');
    expect(JSON.stringify(listed.body)).not.toContain(made.key);
    const stored = await rows<object>(backend.source, 'SELECT to_jsonb(api_keys) AS row FROM api_keys');
    expect(JSON.stringify(stored)).not.toContain(made.key);
  });

  it('its use is noted, at most once a minute', async () => {
    const { id, key } = await make('noted');
    const lastUse = async () => (await rows<{ at: Date | null }>(backend.source, 'SELECT last_used_at AS at FROM api_keys WHERE id = $1', [id]))[0]?.at ?? null;
    expect(await lastUse()).toBeNull();
    await backend.api('GET', '/contacts', undefined, { key });
    const first = await lastUse();
    expect(first).not.toBeNull();
    await backend.api('GET', '/contacts', undefined, { key });
    expect(await lastUse()).toEqual(first);
    await rows(backend.source, `UPDATE api_keys SET last_used_at = now() - interval '61 seconds' WHERE id = $1`, [id]);
    await backend.api('GET', '/contacts', undefined, { key });
    expect((await lastUse())?.getTime()).toBeGreaterThanOrEqual(first?.getTime() ?? 0);
  });

  it('a revoked key is refused at once, a repeat of the revocation changes nothing, an unknown one is a 404', async () => {
    const { id, key } = await make('short-lived');
    expect((await backend.api('DELETE', `/api-keys/${id}`)).status).toBe(204);
    expect((await backend.api('GET', '/contacts', undefined, { key })).status).toBe(401);
    expect((await backend.api('DELETE', `/api-keys/${id}`)).status).toBe(204);
    expect((await backend.api('DELETE', '/api-keys/0198c0de-0000-7000-8000-000000000000')).status).toBe(404);
  });

  it('of two last keys that revoke each other at once one stays', async () => {
    const other = await make('other');
    await rows(backend.source, `UPDATE api_keys SET revoked_at = now() WHERE name <> 'tests' AND id <> $1`, [other.id]);
    const [own] = (await backend.api<Listed>('GET', '/api-keys?limit=200')).body.items.filter(({ name }) => name === 'tests');
    const ends = await Promise.all([
      backend.api('DELETE', `/api-keys/${own?.id}`, undefined, { key: other.key }),
      backend.api('DELETE', `/api-keys/${other.id}`),
    ]);
    const live = await rows<{ id: string }>(backend.source, 'SELECT id FROM api_keys WHERE revoked_at IS NULL');
    expect(live).toHaveLength(1);
    // The slower one may find its own key revoked, or be told that the last one stays.
    expect(ends.map(({ status }) => status).sort()[0]).toBe(204);
    expect([401, 409]).toContain(ends.map(({ status }) => status).sort()[1]);
    await rows(backend.source, 'UPDATE api_keys SET revoked_at = NULL');
  });

  it('the last live key cannot be revoked', async () => {
    const [own] = (await backend.api<Listed>('GET', '/api-keys?limit=200')).body.items.filter(({ name }) => name === 'tests');
    await rows(backend.source, `UPDATE api_keys SET revoked_at = now() WHERE name <> 'tests'`);
    expect(await backend.api('DELETE', `/api-keys/${own?.id}`)).toMatchObject({ status: 409, body: { type: 'urn:onward:error:conflict' } });
    expect((await backend.api('GET', '/contacts')).status).toBe(200);
  });
});

describe('the first key', () => {
  let folder: string;
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'onward-first-key-'));
    return () => rmSync(folder, { recursive: true });
  });
  const withoutKeys = async <Result>(work: () => Promise<Result>): Promise<Result> => {
    await rows(backend.source, 'CREATE TABLE kept_keys AS TABLE api_keys');
    await rows(backend.source, 'DELETE FROM api_keys');
    try {
      return await work();
    } finally {
      await rows(backend.source, 'DELETE FROM api_keys');
      await rows(backend.source, 'INSERT INTO api_keys TABLE kept_keys');
      await rows(backend.source, 'DROP TABLE kept_keys');
    }
  };

  it('is made once, however many backends start together, and written for its owner alone', async () => {
    const file = join(folder, 'key');
    writeFileSync(file, 'old', { mode: 0o644 });
    await withoutKeys(async () => {
      const made = (await Promise.all(Array.from({ length: 8 }, () => ensureFirstKey(backend.source, file)))).filter((key) => key !== null);
      expect(made).toHaveLength(1);
      expect(readFileSync(file, 'utf8')).toBe(`${made[0]?.key}\n`);
      expect(statSync(file).mode & 0o777).toBe(0o600);
      expect((await backend.api('GET', '/contacts', undefined, { key: made[0]?.key ?? null })).status).toBe(200);
      expect(await ensureFirstKey(backend.source, file)).toBeNull();
    });
  });

  it('is made at the start of a backend that finds none, into the file that the settings name', async () => {
    expect(existsSync(keyFile)).toBe(false);
    await withoutKeys(async () => {
      await backend.backend.app.get(FirstKey, { strict: false }).onApplicationBootstrap();
      expect((await backend.api('GET', '/contacts', undefined, { key: readFileSync(keyFile, 'utf8').trim() })).status).toBe(200);
    });
  });

  it('is not kept when its file cannot be written', async () => {
    await withoutKeys(async () => {
      await expect(ensureFirstKey(backend.source, join(folder, 'missing', 'key'))).rejects.toThrow(/ENOENT/);
      expect(await rows(backend.source, 'SELECT 1 FROM api_keys')).toHaveLength(0);
    });
  });
});
