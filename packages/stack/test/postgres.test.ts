import { chownSync, existsSync, mkdirSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import pg from 'pg';
import { afterEach, describe, expect, test } from 'vitest';
import { dropDatabase, ensureDatabase } from '../src/ensure-database.js';
import { keepService } from '../src/keep-service.js';
import { type PostgresServer, startPostgres } from '../src/postgres.js';
import { birthOf } from '../src/process-birth.js';
import { canEnter } from '../src/unprivileged-account.js';
import { endAfterTest } from './end-after-test.js';
import { childScript, runChild } from './run-child.js';
import { makeTemporaryFolder } from './temporary-folder.js';

const folder = makeTemporaryFolder();
const dataDir = join(folder, 'postgres');
const started: PostgresServer[] = [];
afterEach(async () => {
  for (const server of started.splice(0)) await server.stop();
});

async function start(options: Partial<Parameters<typeof startPostgres>[0]> = {}): Promise<PostgresServer> {
  const server = await startPostgres({ dataDir, ...options });
  started.push(server);
  return server;
}

async function ask(url: string, sql: string): Promise<readonly Record<string, unknown>[]> {
  const client = new pg.Client({ connectionString: url });
  client.on('error', () => {}); // a server that is killed under a client
  await client.connect();
  try {
    return (await client.query<Record<string, unknown>>(sql)).rows;
  } finally {
    await client.end();
  }
}

describe('an embedded PostgreSQL', () => {
  test('keeps what was committed over a stop', async () => {
    const first = await start();
    const url = await ensureDatabase(first.url('postgres'), 'kept');
    await ask(url, 'CREATE TABLE facts AS SELECT 42 AS answer');
    await first.stop();
    expect(birthOf(first.pid)).toBeUndefined();
    const second = await start();
    expect(await ask(second.url('kept'), 'SELECT answer FROM facts')).toEqual([{ answer: 42 }]);
  });

  test('is reached over loopback TCP only, with a password, in UTF-8 and UTC, and with fsync on', async () => {
    const server = await start();
    const [shown] = await ask(
      server.url('postgres'),
      `SELECT current_setting('listen_addresses') AS listens, current_setting('unix_socket_directories') AS sockets, current_setting('fsync') AS fsync,
              current_setting('synchronous_commit') AS commits, current_setting('server_encoding') AS encoding, current_setting('lc_messages') AS locale,
              current_setting('timezone') AS zone, (SELECT string_agg(DISTINCT auth_method, ',') FROM pg_hba_file_rules) AS authentication`,
    );
    expect(shown).toEqual({
      listens: '127.0.0.1',
      sockets: '',
      fsync: 'on',
      commits: 'on',
      encoding: 'UTF8',
      locale: 'C',
      zone: 'UTC',
      authentication: 'scram-sha-256',
    });
    const withoutPassword = new URL(server.url('postgres'));
    withoutPassword.password = 'guess';
    await expect(ask(withoutPassword.href, 'SELECT 1')).rejects.toMatchObject({ code: '28P01' });
  });

  test('keeps its password in a file that only its owner reads', async () => {
    const server = await start();
    const file = `${server.dataDir}.password`;
    expect(statSync(file).mode & 0o777).toBe(0o600);
    expect(decodeURIComponent(new URL(server.url('postgres')).password)).toBe(readFileSync(file, 'utf8').trim());
  });

  test('recovers from a SIGKILL on the same port, with what was committed, though a query of the dead server goes on', async () => {
    const first = await start();
    await ask(first.url('postgres'), 'CREATE TABLE IF NOT EXISTS survivors (id int)');
    await ask(first.url('postgres'), 'INSERT INTO survivors VALUES (7)');
    const busy = new pg.Client({ connectionString: first.url('postgres') });
    busy.on('error', () => {});
    await busy.connect();
    const busyUntil = busy.query('SELECT count(*) FROM generate_series(1, 4000000)').catch(() => undefined);
    await expect
      .poll(() =>
        ask(
          first.url('postgres'),
          `SELECT 1 AS one FROM pg_stat_activity WHERE state = 'active' AND query LIKE '%generate_series%' AND pid <> pg_backend_pid()`,
        ),
      )
      .toHaveLength(1);
    first.kill('SIGKILL');
    expect(await first.exited).toBe('it was ended by SIGKILL');
    const second = await start({ port: first.port });
    expect(second.port).toBe(first.port);
    expect(await ask(second.url('postgres'), 'SELECT id FROM survivors')).toEqual([{ id: 7 }]);
    await busyUntil;
    await busy.end().catch(() => undefined);
  });

  test('comes back by itself when it is kept and somebody kills it', async () => {
    const log: string[] = [];
    const kept = await keepService(
      'PostgreSQL',
      (port) => startPostgres({ dataDir, ...(port === undefined ? {} : { port }) }),
      (line) => log.push(line),
    );
    const { pid, port, exited } = kept.current();
    kept.current().kill('SIGKILL');
    await exited;
    await expect.poll(() => kept.current().pid, { timeout: 30_000 }).not.toBe(pid);
    expect(kept.current().port).toBe(port);
    expect(await ask(kept.current().url('postgres'), 'SELECT 1 AS one')).toEqual([{ one: 1 }]);
    expect(log).toEqual(['PostgreSQL: it was ended by SIGKILL; starting it again']);
    await kept.stop();
    expect(birthOf(kept.current().pid)).toBeUndefined();
  });

  test('stops the server that a killed process left on the folder, and starts', async () => {
    const dying = runChild('start-servers.mjs', [folder, 'postgres']);
    const leftOver = JSON.parse(await dying.nextLine()) as { postgres: { pid: number } };
    endAfterTest(leftOver.postgres.pid);
    await dying.end('SIGKILL');
    expect(birthOf(leftOver.postgres.pid)).toBeDefined();
    const log: string[] = [];
    const server = await start({ log: (line) => log.push(line) });
    expect(birthOf(leftOver.postgres.pid)).toBeUndefined();
    expect(log).toEqual([`stopping a PostgreSQL that an earlier start left behind (process ${leftOver.postgres.pid})`]);
    expect(await ask(server.url('postgres'), 'SELECT 1 AS one')).toEqual([{ one: 1 }]);
  });

  test('is refused on a folder that a living process uses, whose server goes on', async () => {
    const server = await start();
    await expect(startPostgres({ dataDir })).rejects.toThrow(`${dataDir} is in use by a process that started PostgreSQL (process ${process.pid})`);
    expect(await ask(server.url('postgres'), 'SELECT 1 AS one')).toEqual([{ one: 1 }]);
  });

  test('takes the next free port when the wanted one is taken, and says so', async () => {
    const first = await start();
    const log: string[] = [];
    const second = await start({ dataDir: join(folder, 'second'), port: first.port, log: (line) => log.push(line) });
    expect(second.port).toBeGreaterThan(first.port);
    expect(log).toEqual([`port ${first.port} is taken, PostgreSQL uses ${second.port}`]);
  });

  test('that cannot start says why in the words of its log', async () => {
    await expect(start({ settings: { max_connections: 'many' } })).rejects.toThrow(
      /PostgreSQL did not start: it exited with code 1\n.*invalid value for parameter "max_connections": "many"/s,
    );
    await start(); // and gives the folder back
  });

  test('whose making was interrupted is made anew', async () => {
    const half = join(folder, 'half');
    mkdirSync(`${half}.new/base`, { recursive: true });
    const server = await start({ dataDir: half });
    expect(await ask(server.url('postgres'), 'SELECT 1 AS one')).toEqual([{ one: 1 }]);
    expect(existsSync(`${half}.new`)).toBe(false);
  });

  test('starts for an ordinary account as well', async () => {
    const nobody = { name: 'nobody', uid: 65_534, gid: 65_534 };
    const mayChange = process.getuid?.() === 0 && canEnter(nobody, join(childScript(''), '..'));
    const own = join(folder, 'ordinary');
    mkdirSync(own, { mode: 0o777 });
    if (mayChange) chownSync(own, nobody.uid, nobody.gid);
    const child = runChild('start-servers.mjs', [own, 'postgres'], mayChange ? { as: { uid: nobody.uid, gid: nobody.gid } } : {});
    try {
      const { uid, postgres } = JSON.parse(await child.nextLine()) as { uid: number; postgres: { url: string } };
      expect(uid).toBe(mayChange ? nobody.uid : process.getuid?.());
      expect(await ask(postgres.url, 'SELECT 1 AS one')).toEqual([{ one: 1 }]);
    } finally {
      await child.end('SIGTERM');
    }
  });
});

describe('databases', () => {
  test('are made once however many ask at the same moment, and are dropped with their connections', async () => {
    const server = await start();
    const admin = server.url('postgres');
    const urls = await Promise.all([1, 2, 3, 4].map(() => ensureDatabase(admin, 'a "quoted" name')));
    expect(new Set(urls).size).toBe(1);
    const held = new pg.Client({ connectionString: urls[0] });
    held.on('error', () => {});
    await held.connect();
    await dropDatabase(admin, 'a "quoted" name');
    expect(await ask(admin, `SELECT 1 FROM pg_database WHERE datname = 'a "quoted" name'`)).toEqual([]);
    await held.end().catch(() => undefined);
  });
});
