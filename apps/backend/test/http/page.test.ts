import { afterAll, beforeAll, expect, it } from 'vitest';
import { rows } from '../../src/database/sql.js';
import { instantKey, type Page, pageOf, pageQuery, seek } from '../../src/http/page.js';
import { type BackendForTest, backendForTest } from '../backend-for-test.js';

let backend: BackendForTest;
beforeAll(async () => {
  backend = await backendForTest();
  await rows(
    backend.source,
    `INSERT INTO contacts (id, external_id, created_at) SELECT gen_random_uuid(), 'c' || n, '2026-03-01T10:00:00.123456Z' FROM generate_series(1, 105) AS n`,
  );
});
afterAll(() => backend.close());

type Listed = { items: { id: string; externalId: string }[]; nextCursor: string | null };

async function readAll(query: string, between: (page: number) => Promise<void> = async () => {}): Promise<string[]> {
  const seen: string[] = [];
  let cursor: string | null = null;
  for (let page = 1; page === 1 || cursor !== null; page += 1) {
    const answer: { status: number; body: Listed } = await backend.api<Listed>('GET', `/contacts?${query}${cursor === null ? '' : `&cursor=${cursor}`}`);
    expect(answer.status).toBe(200);
    seen.push(...answer.body.items.map(({ externalId }) => externalId));
    cursor = answer.body.nextCursor;
    await between(page);
  }
  return seen;
}

it('F76: 105 rows of one instant are each read once, while newer and older ones come in', async () => {
  const seen = await readAll('limit=10', async (page) => {
    await rows(
      backend.source,
      `INSERT INTO contacts (id, external_id, created_at) VALUES (gen_random_uuid(), $1, now()), (gen_random_uuid(), $2, '2026-03-01T10:00:00.123455Z')`,
      [`new${page}`, `old${page}`],
    );
  });
  expect(new Set(seen).size).toBe(seen.length);
  expect(seen.filter((name) => name.startsWith('c'))).toHaveLength(105);
  expect(seen.filter((name) => name.startsWith('new'))).toHaveLength(0);
});

it.each(['asc', 'desc'] as const)('F76: a cursor keeps microseconds and breaks ties by id, %s', async (order) => {
  const read = async (page: Page) => {
    const place = seek(page, { key: 'created_at', id: 'id', kind: 'instant', order }, 1);
    const found = await rows<{ id: string; at: string }>(
      backend.source,
      `SELECT id, ${instantKey('created_at')} AS at FROM contacts WHERE external_id LIKE $1 AND ${place.where} ${place.ending}`,
      ['c%', ...place.parameters],
    );
    return pageOf(
      found,
      page.limit,
      ({ at, id }) => [at, id],
      ({ id }) => id,
    );
  };
  const seen: string[] = [];
  for (let page = await read({ limit: 10 }); ; ) {
    seen.push(...page.items);
    if (page.nextCursor === null) break;
    const cursor = pageQuery('instant').cursor.parse(page.nextCursor);
    page = await read({ limit: 10, cursor });
  }
  const sorted = [...seen].sort();
  expect(seen).toEqual(order === 'asc' ? sorted : sorted.reverse());
  expect(new Set(seen).size).toBe(105);
});

it('F76: a page deep in the list is found by the index', async () => {
  await rows(
    backend.source,
    `INSERT INTO contacts (id, external_id, created_at) SELECT gen_random_uuid(), 'many' || n, '2026-02-01T10:00:00.123456Z' FROM generate_series(1, 20000) AS n`,
  );
  await rows(backend.source, 'ANALYZE contacts');
  const all = await rows<{ 'QUERY PLAN': string }>(
    backend.source,
    `EXPLAIN SELECT id FROM contacts WHERE (created_at, id) < ('2026-03-01T10:00:00.123456Z', '80000000-0000-4000-8000-000000000000') ORDER BY created_at DESC, id DESC LIMIT 11`,
  );
  expect(all.map((line) => line['QUERY PLAN']).join('\n')).toMatch(/Index.*contacts_created/);
});

it('the last page has no cursor, also when it is full', async () => {
  await rows(backend.source, `DELETE FROM contacts WHERE external_id NOT IN ('c1', 'c2')`);
  const { body } = await backend.api<Listed>('GET', '/contacts?limit=2');
  expect(body.items).toHaveLength(2);
  expect(body.nextCursor).toBeNull();
});
