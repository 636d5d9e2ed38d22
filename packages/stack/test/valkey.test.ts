import { chmodSync, mkdirSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Redis } from 'ioredis';
import { afterEach, beforeAll, describe, expect, test } from 'vitest';
import { readDebianRelease } from '../src/apt-sources.js';
import { birthOf } from '../src/process-birth.js';
import { unpackValkey } from '../src/unpack-valkey.js';
import { findValkey, startValkey, type ValkeyServer } from '../src/valkey.js';
import { findOnPath, type ValkeyProgram } from '../src/valkey-program.js';
import { endAfterTest } from './end-after-test.js';
import { runChild } from './run-child.js';
import { makeTemporaryFolder } from './temporary-folder.js';

const folder = makeTemporaryFolder();
const dataDir = join(folder, 'valkey');
let program: ValkeyProgram;
const started: ValkeyServer[] = [];
beforeAll(async () => {
  program = await findValkey(() => {});
});
afterEach(async () => {
  for (const server of started.splice(0)) await server.stop();
});

async function start(options: Partial<Parameters<typeof startValkey>[0]> = {}): Promise<ValkeyServer> {
  const server = await startValkey({ dataDir, program, ...options });
  started.push(server);
  return server;
}

async function talk<Answer>(url: string, act: (client: Redis) => Promise<Answer>): Promise<Answer> {
  const client = new Redis(url);
  try {
    return await act(client);
  } finally {
    client.disconnect();
  }
}

describe('an embedded Valkey', () => {
  test('appends everything to its file, evicts nothing, and listens on loopback only', async () => {
    const { url, version, pid } = await start();
    const settings = await talk(url, (client) => client.call('CONFIG', 'GET', 'appendonly', 'maxmemory-policy', 'bind', 'dir', 'appendfsync'));
    expect(settings).toEqual(
      expect.arrayContaining(['appendonly', 'yes', 'maxmemory-policy', 'noeviction', 'bind', '127.0.0.1', 'dir', dataDir, 'appendfsync', 'everysec']),
    );
    expect(await talk(url, (client) => client.info('server'))).toContain(`process_id:${pid}`);
    expect(Number(version.split('.')[0])).toBeGreaterThanOrEqual(7);
  });

  test('keeps what it was told over a stop, on the same port', async () => {
    const first = await start();
    await talk(first.url, (client) => client.set('kept', 'yes'));
    await first.stop();
    expect(birthOf(first.pid)).toBeUndefined();
    const second = await start({ port: first.port });
    expect(second.url).toBe(first.url);
    expect(await talk(second.url, (client) => client.get('kept'))).toBe('yes');
  });

  test('stops the server that a killed process left on the folder, and starts with its data', async () => {
    const dying = runChild('start-servers.mjs', [folder, 'valkey']);
    const { valkey } = JSON.parse(await dying.nextLine()) as { valkey: { pid: number; url: string } };
    endAfterTest(valkey.pid);
    await talk(valkey.url, (client) => client.set('left', 'over'));
    await dying.end('SIGKILL');
    expect(birthOf(valkey.pid)).toBeDefined();
    const server = await start();
    expect(birthOf(valkey.pid)).toBeUndefined();
    expect(await talk(server.url, (client) => client.get('left'))).toBe('over');
  });

  test('is refused on a folder that a living process uses', async () => {
    await start();
    await expect(startValkey({ dataDir, program })).rejects.toThrow(`is in use by a process that started Valkey (process ${process.pid})`);
  });

  test('takes the next free port when the wanted one is taken', async () => {
    const first = await start();
    const second = await start({ dataDir: join(folder, 'second'), port: first.port });
    expect(second.port).toBeGreaterThan(first.port);
    expect(await talk(second.url, (client) => client.ping())).toBe('PONG');
  });

  test('that cannot start says why in the words of its log', async () => {
    const broken = join(folder, 'broken');
    mkdirSync(join(broken, 'appendonlydir'), { recursive: true });
    writeFileSync(join(broken, 'appendonlydir', 'appendonly.aof.manifest'), 'nonsense\n');
    await expect(start({ dataDir: broken })).rejects.toThrow(/Valkey did not start: it exited with code 1\n.*manifest/is);
  });
});

describe('the program that is used', () => {
  function putOnPath(name: string, server: string, text: string): string {
    const place = join(folder, name);
    mkdirSync(place, { recursive: true });
    writeFileSync(join(place, server), `#!/bin/sh\n${text}\n`);
    chmodSync(join(place, server), 0o755);
    return place;
  }

  test('is a valkey-server on PATH before a redis-server, wherever each stands', () => {
    const real = `LD_LIBRARY_PATH='${program.libraryPath}' exec '${program.command}' "$@"`;
    const redis = putOnPath('redis', 'redis-server', 'echo "Redis server v=7.2.4 sha=00000000:0 malloc=libc bits=64 build=0"');
    const valkey = putOnPath('valkey', 'valkey-server', real);
    expect(findOnPath(`${redis}:${valkey}`).found).toMatchObject({ command: join(valkey, 'valkey-server'), version: program.version });
    expect(findOnPath(redis).found).toMatchObject({ product: 'Redis', version: '7.2.4', source: `Redis 7.2.4 found on PATH in ${redis}` });
  });

  test('is never one older than 7, nor one that does not run', () => {
    const old = putOnPath('old', 'redis-server', 'echo "Redis server v=6.0.16 sha=00000000:0 malloc=libc bits=64 build=0"');
    const broken = putOnPath('broken-program', 'valkey-server', 'exit 127');
    const { found, tooOld } = findOnPath(`${broken}:${old}`);
    expect(found).toBeUndefined();
    expect(tooOld.map(({ version }) => version)).toEqual(['6.0.16']);
  });

  test('is unpacked from Debian packages into a cache, by two starters at the same moment as well', async () => {
    const cache = join(folder, 'cache');
    mkdirSync(cache);
    const answers = await Promise.all([unpackValkey(() => {}, cache), unpackValkey(() => {}, cache)]);
    if (readDebianRelease() === undefined) {
      expect(answers).toEqual([1, 2].map(() => ({ missing: expect.stringContaining('neither Debian nor Ubuntu') })));
      return;
    }
    for (const answer of answers)
      expect(answer).toMatchObject({ isRecent: true, source: expect.stringContaining(`unpacked from packages into ${cache}/valkey-`) });
    expect(readdirSync(cache)).toHaveLength(1);
    const log: string[] = [];
    expect(await unpackValkey((line) => log.push(line), cache)).toEqual(answers[0]);
    expect(log).toEqual([]); // from the cache, without asking the mirror
  }, 180_000);
});
