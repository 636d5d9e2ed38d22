import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import type { FastifyInstance } from 'fastify';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { mintKeyText } from '../../src/access/key-text.js';
import { type BackendForTest, backendForTest } from '../backend-for-test.js';

let onward: BackendForTest;
/** Every route the router of this process knows, whoever registered it. */
const routes: Route[] = [];
beforeAll(async () => {
  subscribe('fastify.initialization', listen);
  onward = await backendForTest({ AUTOMATIONS_SWEEP_INTERVAL_MS: '1000000' });
  unsubscribe('fastify.initialization', listen);
});
afterAll(() => onward?.close());

type Route = { method: string; path: string };

const OPEN = ['/health', '/health/ready'];
const METHODS = ['GET', 'HEAD', 'OPTIONS', 'POST', 'PUT', 'PATCH', 'DELETE'];
const DENIED = [401, 404, 405];

/** Notes what is registered at the server that has just been made. */
function listen(message: unknown): void {
  (message as { fastify: FastifyInstance }).fastify.addHook('onRoute', ({ method, url }) => {
    const path = url.replaceAll(/:\w+/g, '0198c0de-0000-7000-8000-000000000000');
    routes.push(...[method].flat().map((one) => ({ method: one, path })));
  });
}

async function ask(method: string, path: string, authorization?: string): Promise<number> {
  const response = await fetch(`${onward.url}${path}`, { method, redirect: 'manual', headers: authorization === undefined ? {} : { authorization } });
  await response.arrayBuffer();
  return response.status;
}

const paths = () => [...new Set(routes.map(({ path }) => path))].filter((path) => !OPEN.includes(path));

const SPELLINGS: Record<string, (path: string) => string> = {
  'as it is': (path) => path,
  'with a slash at the end': (path) => `${path}/`,
  'with two slashes at the front': (path) => `/${path}`,
  'with every slash twice': (path) => path.replaceAll('/', '//'),
  'with the last slash escaped': (path) => path.replace(/\/([^/]*)$/, '%2f$1'),
  'with an escaped slash at the end': (path) => `${path}%2f`,
  'in capitals': (path) => path.toUpperCase(),
  'by way of the open path': (path) => `/health/..%2f${path.slice(1)}`,
};

test('the router knows the routes of people, of the test clock and of the description', () => {
  const known = routes.map(({ method, path }) => `${method} ${path}`);
  expect(known).toEqual(expect.arrayContaining(['GET /health', 'POST /api/v1/events', 'POST /api/v1/runs', 'GET /api/v1/api-keys', 'POST /api/v1/test/clock']));
  expect(paths().some((path) => path.startsWith('/api/docs'))).toBe(true);
  expect(paths().length).toBeGreaterThan(30);
});

describe.each([
  ['no key', undefined],
  ['a key that nobody made', `Bearer ${mintKeyText().key}`],
  ['a word that is no key', 'Bearer undefined'],
])('with %s', (_what, authorization) => {
  test.each(Object.entries(SPELLINGS))('nobody gets in by any route, by any method, spelled %s', async (_how, spell) => {
    const admitted: string[] = [];
    await Promise.all(
      METHODS.map(async (method) => {
        for (const path of paths()) {
          const status = await ask(method, spell(path), authorization);
          if (!DENIED.includes(status)) admitted.push(`${method} ${spell(path)}: ${status}`);
        }
      }),
    );
    expect(admitted).toEqual([]);
  });

  test('every route as it is written is a 401, not a 404 that hides a mistake of this test', async () => {
    for (const { method, path } of routes) {
      if (!OPEN.includes(path)) expect([method, path, await ask(method, path, authorization)]).toEqual([method, path, 401]);
    }
  });

  test.each(OPEN)('%s is open to GET and HEAD and to nothing else', async (path) => {
    for (const method of METHODS) {
      const isOpen = method === 'GET' || method === 'HEAD';
      expect([method, isOpen ? [200] : DENIED]).toEqual([method, expect.arrayContaining([await ask(method, path, authorization)])]);
    }
  });
});

test('with a live key the same routes let in', async () => {
  for (const { method, path } of routes) {
    if (method === 'GET' && !OPEN.includes(path)) expect([path, await ask(method, path, `Bearer ${onward.apiKey}`)]).not.toEqual([path, 401]);
  }
});
