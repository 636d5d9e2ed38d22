/** The bucket of all workers, on a real Valkey, which is wiped, paused and stopped. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as pass } from 'node:timers/promises';
import { startValkey, type ValkeyServer } from '@onward/stack/valkey';
import { Redis } from 'ioredis';
import { pino } from 'pino';
import { afterAll, beforeAll, beforeEach, describe, expect, onTestFinished, test, vi } from 'vitest';
import { Rate } from '../../src/targets/rate.js';
import { type Grant, TokenBucket } from '../../src/targets/token-bucket.js';

const ORIGIN = 'https://api.example.test';
const KEY = `{onward}:rate:${ORIGIN}`;

let folder: string;
let valkey: ValkeyServer;
let redis: Redis;

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'token-bucket-'));
  valkey = await startValkey({ dataDir: join(folder, 'valkey') });
  redis = new Redis(valkey.url);
});

afterAll(async () => {
  redis?.disconnect();
  await valkey?.stop();
  rmSync(folder, { recursive: true, force: true });
});

beforeEach(() => redis.flushall());

const wanted = { origin: ORIGIN, ratePerSecond: 10, maxWaitMs: 1_000, grantedToMs: 0 };

/** A bucket on a connection of its own that has been used. */
async function startBucket(): Promise<TokenBucket> {
  const bucket = new TokenBucket(valkey.url, pino({ level: 'silent' }));
  onTestFinished(() => bucket.close());
  const isReached = () =>
    bucket.take({ ...wanted, origin: 'https://other.example.test' }).then(
      () => true,
      () => false,
    );
  await vi.waitUntil(isReached, { timeout: 30_000 });
  return bucket;
}

async function nowOfValkey(): Promise<number> {
  const [seconds, micros] = await redis.time();
  return Number(seconds) * 1_000 + Number(micros) / 1_000;
}

describe('a bucket', () => {
  test('that is new is empty: its tokens come one by one from now on, and none is taken that comes too late', async () => {
    const bucket = await startBucket();
    const beganAtMs = await nowOfValkey();
    const grants: Grant[] = [];
    for (let nth = 0; nth < 30; nth++) grants.push(await bucket.take(wanted));
    const granted = grants.filter(({ isGranted }) => isGranted);
    const lastAtMs = await nowOfValkey();
    expect(granted.length).toBeGreaterThanOrEqual(10);
    expect(granted.length).toBeLessThanOrEqual(10 + Math.ceil((lastAtMs - beganAtMs) / 100));
    granted.forEach(({ atMs, waitMs }, nth) => {
      expect(Math.abs(atMs - (granted[0]?.atMs ?? 0) - nth * 100)).toBeLessThanOrEqual(2);
      expect(waitMs).toBeLessThanOrEqual(1_000);
    });
    expect((granted[0]?.atMs ?? 0) - beganAtMs).toBeGreaterThanOrEqual(100);
    const refusal = grants.find(({ isGranted }) => !isGranted);
    expect(refusal?.waitMs).toBeGreaterThan(1_000);
    expect(refusal?.waitMs).toBeLessThanOrEqual(1_100);
  });

  test('that refuses remembers since when it fills, and takes nothing', async () => {
    const bucket = await startBucket();
    const first = await bucket.take({ ...wanted, ratePerSecond: 0.1 });
    expect(first).toMatchObject({ isGranted: false, waitMs: 10_000 });
    for (let nth = 0; nth < 5; nth++) {
      const { isGranted, atMs } = await bucket.take({ ...wanted, ratePerSecond: 0.1 });
      expect(isGranted).toBe(false);
      expect(Math.abs(atMs - first.atMs)).toBeLessThanOrEqual(2);
    }
    expect(await redis.pttl(KEY)).toBeGreaterThan(600_000);
  });

  test('that was idle holds half a second of its rate and no more', async () => {
    const bucket = await startBucket();
    await redis.hset(KEY, { tokens: 0, at: (await nowOfValkey()) - 3_600_000 });
    const beganAtMs = await nowOfValkey();
    const waits: number[] = [];
    for (let nth = 0; nth < 7; nth++) waits.push((await bucket.take(wanted)).waitMs);
    const filledMeanwhile = Math.floor(((await nowOfValkey()) - beganAtMs) / 100);
    expect(waits.slice(0, 5)).toEqual([0, 0, 0, 0, 0]);
    expect(waits.filter((ms) => ms === 0).length).toBeLessThanOrEqual(5 + filledMeanwhile);
  });

  test('whose clock was set back starts from now', async () => {
    const bucket = await startBucket();
    await redis.hset(KEY, { tokens: 0, at: (await nowOfValkey()) + 3_600_000 });
    expect(await bucket.take(wanted)).toMatchObject({ isGranted: true, waitMs: 100 });
    expect(await bucket.take({ ...wanted, grantedToMs: (await nowOfValkey()) + 3_600_000 })).toMatchObject({ isGranted: true });
  });

  test('that was wiped does not grant again what a caller was granted', async () => {
    const bucket = await startBucket();
    let last: Grant = { isGranted: false, waitMs: 0, atMs: 0 };
    for (let nth = 0; nth < 8; nth++) last = await bucket.take({ ...wanted, grantedToMs: last.atMs });
    await redis.flushall();
    const next = await bucket.take({ ...wanted, grantedToMs: last.atMs });
    expect(next.isGranted).toBe(true);
    expect(next.atMs - last.atMs).toBeGreaterThanOrEqual(99);
  });

  test('throws when Valkey does not answer in time, and answers again afterwards', async () => {
    const bucket = await startBucket();
    await redis.client('PAUSE', 60_000, 'WRITE');
    await expect(bucket.take(wanted)).rejects.toThrow();
    await redis.client('UNPAUSE');
    const answers = () =>
      bucket.take(wanted).then(
        () => true,
        () => false,
      );
    await vi.waitUntil(answers, { timeout: 30_000 });
  });
});

test('three clients together hold the rate within a tenth in any ten seconds, also when Valkey is wiped in between', async () => {
  const ratePerSecond = 40;
  const clients = await Promise.all([startBucket(), startBucket(), startBucket()]);
  const grantedAtMs: number[] = [];
  const beganAtMs = performance.now();
  const isOver = () => performance.now() - beganAtMs > 24_000;
  const drive = async (bucket: TokenBucket) => {
    let grantedToMs = 0;
    const askAndWait = async () => {
      while (!isOver()) {
        const grant = await bucket.take({ ...wanted, ratePerSecond, grantedToMs }).catch(() => undefined);
        if (grant?.isGranted === true) {
          grantedAtMs.push(grant.atMs);
          grantedToMs = Math.max(grantedToMs, grant.atMs);
        }
        await pass(grant?.waitMs ?? 50);
      }
    };
    await Promise.all(Array.from({ length: 20 }, askAndWait));
  };
  const wiping = pass(12_000).then(() => redis.flushall());
  await Promise.all([...clients.map(drive), wiping]);

  grantedAtMs.sort((a, b) => a - b);
  const lastAtMs = grantedAtMs.at(-1) ?? 0;
  const counts = grantedAtMs
    .filter((fromMs) => fromMs + 10_000 <= lastAtMs - 1_000)
    .map((fromMs) => grantedAtMs.filter((atMs) => atMs >= fromMs && atMs < fromMs + 10_000).length);
  expect(counts.length).toBeGreaterThan(300);
  expect(Math.max(...counts)).toBeLessThanOrEqual(440);
  expect(Math.min(...counts)).toBeGreaterThanOrEqual(360);
  process.stdout.write(`ten seconds at ${ratePerSecond}/s held from ${Math.min(...counts)} to ${Math.max(...counts)}\n`);
}, 120_000);

describe('the rate of a target while Valkey is away', () => {
  const take = (rate: Rate) => rate.take({ ratePerSecond: 10, maxWaitMs: 1_000 });

  test('is this worker share of it, and its bucket is empty each time it is needed', async () => {
    const own = await startValkey({ dataDir: join(folder, 'away') });
    const bucket = new TokenBucket(own.url, pino({ level: 'silent' }));
    onTestFinished(async () => {
      bucket.close();
      await own.stop();
    });
    const rate = new Rate(ORIGIN, bucket, () => 4);
    // 10 / 4 a second: the first token comes in 400 ms, the next one 400 ms later, the one after that too late.
    const away = await Promise.all([take(rate), take(rate), take(rate)]);
    expect(away[0]).toEqual({ isGranted: true, waitMs: 400 });
    expect(away[2]).toMatchObject({ isGranted: false });
    const isBack = async () => ((await take(rate)) as Partial<Grant>).atMs !== undefined;
    await vi.waitUntil(isBack, { timeout: 30_000 });
    own.kill('SIGKILL');
    await own.exited;
    expect(await take(rate)).toEqual({ isGranted: true, waitMs: 400 });
  });
});
