import { Writable } from 'node:stream';
import { Controller, Get, Module } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import type { NestFastifyApplication } from '@nestjs/platform-fastify';
import { pino } from 'pino';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { rows, transact } from '../../src/database/sql.js';
import { ProblemFilter, problemOf } from '../../src/http/problem-filter.js';
import { createHttpAdapter } from '../../src/http/set-up-http.js';
import { describeError } from '../../src/operations/logger.js';
import { type BackendForTest, backendForTest } from '../backend-for-test.js';

let backend: BackendForTest;
beforeAll(async () => {
  backend = await backendForTest({ DATABASE_POOL_SIZE: '2' });
});
afterAll(() => backend.close());

const thrownBy = (work: () => Promise<unknown>): Promise<unknown> =>
  work().then(
    () => expect.fail('should have thrown'),
    (error: unknown) => error,
  );
const thrownBySql = (sql: string, parameters: unknown[] = []) => thrownBy(() => rows(backend.source, sql, parameters));

describe('errors of Postgres', () => {
  it.each([
    ['a connection that was ended', 'SELECT pg_terminate_backend(pg_backend_pid())', 'unavailable'],
    ['a statement that was cancelled', 'SELECT pg_cancel_backend(pg_backend_pid()), pg_sleep(10)', 'unavailable'],
    ['a unique rule', `INSERT INTO lists (id, name) SELECT gen_random_uuid(), 'twice' FROM generate_series(1, 2)`, 'conflict'],
    ['a reference', `INSERT INTO contact_tags (contact_id, tag) VALUES (gen_random_uuid(), 'x')`, 'conflict'],
    ['a text with NUL in it', `SELECT jsonb_build_object('a', '"\\u0000"'::jsonb ->> 0)`, 'malformed'],
    ['a fault of ours', 'SELECT nothing FROM nowhere', 'internal'],
  ])('%s is answered as what it is', async (_, sql, code) => {
    const problem = problemOf(await thrownBySql(sql));
    expect(problem.code).toBe(code);
    if (code === 'unavailable') expect(problem.retryAfterSeconds).toBeGreaterThan(0);
  });

  it('a deadlock is worth a repeat', async () => {
    await rows(backend.source, `INSERT INTO lists (id, name) VALUES (gen_random_uuid(), 'a'), (gen_random_uuid(), 'b')`);
    const holds: (() => void)[] = [];
    const bothHold = new Promise<void>((resolve) => holds.push(resolve)).then(() => undefined);
    let held = 0;
    const lockBoth = (first: string, second: string) =>
      transact(backend.source, async (tx) => {
        await rows(tx, 'SELECT 1 FROM lists WHERE name = $1 FOR UPDATE', [first]);
        if (++held === 2) for (const release of holds) release();
        await bothHold;
        await rows(tx, 'SELECT 1 FROM lists WHERE name = $1 FOR UPDATE', [second]);
      });
    const ends = await Promise.allSettled([lockBoth('a', 'b'), lockBoth('b', 'a')]);
    const lost = ends.find((end) => end.status === 'rejected');
    expect(problemOf(lost?.reason).code).toBe('unavailable');
  });

  it('a pool with no connection left is a 503 with Retry-After, and the next request is answered', async () => {
    const runners = [backend.source.createQueryRunner(), backend.source.createQueryRunner()];
    for (const runner of runners) await runner.connect();
    const answer = await backend.api('GET', '/contacts');
    for (const runner of runners) await runner.release();
    expect(answer).toMatchObject({ status: 503, body: { type: 'urn:onward:error:unavailable' } });
    expect(Number(answer.headers.get('retry-after'))).toBeGreaterThan(0);
    expect((await backend.api('GET', '/contacts')).status).toBe(200);
  });

  it('the log keeps what explains a failed query and not its parameters', async () => {
    const described = JSON.stringify(describeError(await thrownBySql('SELECT $1::text FROM nowhere', ['a secret value'])));
    expect(described).toContain('nowhere');
    expect(described).toContain('42P01');
    expect(described).not.toContain('a secret value');
  });
});

describe('what was not foreseen', () => {
  @Controller()
  class FaultyController {
    @Get('fault')
    fault(): never {
      throw new Error('the inside of the house');
    }
    @Get('text')
    text(): never {
      throw 'a text';
    }
  }
  @Module({ controllers: [FaultyController] })
  class FaultyModule {}

  it.each(['fault', 'text'])('is a 500 that tells nothing but where to look in the log: %s', async (path) => {
    const lines: string[] = [];
    const log = pino({ serializers: { err: describeError } }, new Writable({ write: (chunk, _, done) => (lines.push(String(chunk)), done()) }));
    const app = await NestFactory.create<NestFastifyApplication>(FaultyModule, createHttpAdapter(), { logger: false });
    app.useGlobalFilters(new ProblemFilter(log));
    await app.listen(0, '127.0.0.1');
    const response = await fetch(`${await app.getUrl()}/${path}`);
    const body = (await response.json()) as { type: string; instance: string };
    await app.close();
    expect(response.status).toBe(500);
    expect(body.type).toBe('urn:onward:error:internal');
    expect(JSON.stringify(body)).not.toMatch(/inside of the house|a text/);
    expect(lines.join('')).toMatch(/inside of the house|a text/);
    expect(lines.join('')).toContain(body.instance);
  });
});
