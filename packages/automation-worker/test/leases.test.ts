/** The renewal of leases, against a scripted backend on TCP. */
import { setTimeout as pass } from 'node:timers/promises';
import type { TargetReport } from '@onward/contracts/targets';
import { describe, expect, test, vi } from 'vitest';
import type { Held, Leases } from '../src/leases.js';
import { type AskedFrame, internal, isRenewal, refused, type Script } from './backend.js';
import { newWakeUp, startParts, WORKER_ID } from './parts.js';

const PREPARE = 'automation.runtime.run.prepare';

const hold = (leases: Leases, { leaseMs = 60_000, askedMsAgo = 0, epoch = 1, wakeUp = newWakeUp() } = {}): Held =>
  leases.hold({ ...wakeUp, epoch, leaseMs }, performance.now() - askedMsAgo);
const lossOf = ({ lost }: Held) => new Promise<void>((resolve) => lost.addEventListener('abort', () => resolve()));
const renewedRun = (frame: AskedFrame) => frame.frame.runs.map(({ items }) => items[0]?.data['runId']);

describe('the renewal', () => {
  test('asks for all leases in hand in one frame, and says who asks and how many they are', async () => {
    const { backend, leases } = await startParts();
    const [one, other] = [newWakeUp(), newWakeUp()];
    hold(leases, { wakeUp: one, epoch: 3 });
    hold(leases, { wakeUp: other, epoch: 4 });
    leases.start();
    expect((await backend.nextRenewal()).frame).toEqual({
      v: 1,
      worker: { workerId: WORKER_ID, inFlight: 2, targets: [] },
      runs: [
        { items: [{ pattern: PREPARE, data: { ...one, epoch: 3, renew: true } }] },
        { items: [{ pattern: PREPARE, data: { ...other, epoch: 4, renew: true } }] },
      ],
    });
    expect(backend.frames).toHaveLength(1);
  });

  test('goes out also when no lease is held', async () => {
    const { backend, leases } = await startParts();
    leases.start();
    expect((await backend.nextRenewal()).frame).toEqual({ v: 1, worker: { workerId: WORKER_ID, inFlight: 0, targets: [] }, runs: [] });
  });

  test('tells in each of its frames how the targets are found', async () => {
    const targets: TargetReport[] = [{ origin: 'https://api.example.test', breaker: 'open', breakerNo: 2, probesInMs: 700, sending: 1, queued: 0 }];
    const { backend, leases } = await startParts({}, { report: () => targets });
    for (let nth = 0; nth < 501; nth++) hold(leases);
    leases.start();
    await backend.untilFrame(({ frame }) => frame.runs.length === 1);
    expect(backend.frames.map(({ frame }) => frame.worker?.targets)).toEqual([targets, targets]);
  });

  test('learns by its answer how many workers there are, one until then', async () => {
    const said = [undefined, 3, undefined, undefined, undefined, 2];
    const seen: number[] = [];
    const { backend, leases } = await startParts({
      frame: () => {
        seen.push(leases.workers);
        const workers = said[backend.frames.length - 1];
        return { reply: { v: 1, runs: [], ...(workers !== undefined && { workers }) } };
      },
    });
    expect(leases.workers).toBe(1);
    leases.start();
    await vi.waitUntil(() => leases.workers === 3, { timeout: 30_000, interval: 2 });
    expect(backend.frames.length).toBeGreaterThan(1);
    await vi.waitUntil(() => leases.workers === 2, { timeout: 30_000, interval: 2 });
    expect(backend.frames.length).toBeGreaterThan(5);
    expect(seen.slice(seen.indexOf(3))).not.toContain(1);
  });

  test('asks no more for a lease that was let go', async () => {
    const { backend, leases } = await startParts();
    const kept = newWakeUp();
    const gone = hold(leases);
    hold(leases, { wakeUp: kept });
    leases.start();
    expect((await backend.nextRenewal()).frame.runs).toHaveLength(2);
    gone.letGo();
    expect(renewedRun(await backend.nextRenewal())).toEqual([kept.runId]);
  });

  test('takes as many frames as it needs, of at most 500 runs each', async () => {
    const { backend, leases } = await startParts();
    const wakeUps = Array.from({ length: 1_001 }, newWakeUp);
    for (const wakeUp of wakeUps) hold(leases, { wakeUp });
    leases.start();
    const last = await backend.untilFrame(({ frame }) => frame.runs.length === 1);
    const frames = backend.frames.slice(0, backend.frames.indexOf(last) + 1);
    expect(frames.map(({ frame }) => frame.runs.length)).toEqual([500, 500, 1]);
    expect(frames.map(({ frame }) => frame.worker?.inFlight)).toEqual([1_001, 1_001, 1_001]);
    expect(new Set(frames.flatMap(renewedRun))).toEqual(new Set(wakeUps.map(({ runId }) => runId)));
  });

  test('comes every third of the setting while nothing is held', async () => {
    const { backend, leases } = await startParts({}, { leaseMs: 900 });
    const startedAtMs = performance.now();
    leases.start();
    const first = await backend.nextRenewal();
    const second = await backend.nextRenewal();
    expect(first.atMs - startedAtMs).toBeGreaterThanOrEqual(295);
    expect(second.atMs - startedAtMs).toBeGreaterThanOrEqual(595);
  });

  test('comes every third of the shortest lease in hand when that is less than the setting, also when it is held later', async () => {
    const { backend, leases } = await startParts({}, { leaseMs: 600_000 });
    leases.start();
    hold(leases, { leaseMs: 60_000 });
    const heldAtMs = performance.now();
    hold(leases, { leaseMs: 600 });
    const first = await backend.nextRenewal();
    const second = await backend.nextRenewal();
    expect(first.frame.runs).toHaveLength(2);
    expect(first.atMs - heldAtMs).toBeGreaterThanOrEqual(195);
    expect(second.atMs - heldAtMs).toBeGreaterThanOrEqual(395);
  });

  test('waits for no answer: an unanswered one holds up none', async () => {
    const { backend, leases } = await startParts({ frame: () => (backend.frames.length === 1 ? 'silent' : undefined) });
    leases.start();
    const first = await backend.nextRenewal();
    const second = await backend.nextRenewal();
    // One frame is given up after a second at the earliest.
    expect(second.atMs - first.atMs).toBeLessThan(900);
  });

  test('comes no more once stopped, also when one was in flight then', async () => {
    let answer = () => {};
    const held = new Promise<void>((resolve) => {
      answer = resolve;
    });
    const stopped = await startParts({ frame: () => held.then(() => undefined) });
    const other = await startParts();
    stopped.leases.start();
    await stopped.backend.nextRenewal();
    stopped.leases.stop();
    answer();
    // Another one of the same pace is the clock.
    other.leases.start();
    for (let nth = 0; nth < 4; nth++) await other.backend.nextRenewal();
    expect(stopped.backend.frames).toHaveLength(1);
  });
});

describe('a lease', () => {
  test('counts from when its claim was asked for', async () => {
    const { leases } = await startParts();
    expect(hold(leases, { leaseMs: 60_000, askedMsAgo: 30_000 }).isConfirmed()).toBe(true);
    expect(hold(leases, { leaseMs: 60_000, askedMsAgo: 60_000 }).isConfirmed()).toBe(false);
  });

  test('counts anew from a renewal', async () => {
    const { backend, leases } = await startParts();
    const late = hold(leases, { askedMsAgo: 60_000 });
    leases.start();
    await backend.nextRenewal();
    await backend.nextRenewal();
    expect(late.isConfirmed()).toBe(true);
    expect(late.lost.aborted).toBe(false);
  });

  test('counts from when its renewal was asked for, not from when that was answered', async () => {
    let answer = () => {};
    const held = new Promise<void>((resolve) => {
      answer = resolve;
    });
    const { backend, leases } = await startParts({
      frame: () => (backend.frames.length === 1 ? held.then(() => undefined) : internal),
    });
    const lease = hold(leases, { leaseMs: 600 });
    const control = hold(leases, { askedMsAgo: 60_000 });
    leases.start();
    await backend.nextRenewal();
    await pass(600); // the length of the lease goes by
    const wasConfirmed = control.isConfirmed();
    answer();
    // The answer of the first has been read when its other lease is confirmed by it.
    while (!control.isConfirmed()) await backend.nextRenewal();
    expect(wasConfirmed).toBe(false);
    expect(lease.isConfirmed()).toBe(false);
    expect(lease.lost.aborted).toBe(false);
  });

  test('whose renewal is refused is lost, and the others are kept', async () => {
    const taken = newWakeUp();
    const { backend, leases } = await startParts({
      renew: ({ data }) => (data['runId'] === taken.runId ? refused('stale_epoch') : { reply: { kind: 'renewed', leaseMs: 60_000 } }),
    });
    const other = hold(leases, { askedMsAgo: 60_000 });
    const lease = hold(leases, { wakeUp: taken });
    const lost = lossOf(lease);
    leases.start();
    await lost;
    expect(lease.isConfirmed()).toBe(false);
    await backend.nextRenewal();
    expect(other.lost.aborted).toBe(false);
    expect(other.isConfirmed()).toBe(true);
  });

  test.each<[string, Script]>([
    ['is an error', { renew: ({ data }) => (data['epoch'] === 2 ? { reply: { kind: 'renewed', leaseMs: 60_000 } } : internal) }],
    ['came in a frame that was an error', { frame: ({ frame }) => (frame.runs.length === 2 ? internal : undefined) }],
  ])('whose renewal %s is neither confirmed nor lost', async (_, script) => {
    const { backend, leases } = await startParts(script);
    const fresh = hold(leases);
    const late = hold(leases, { askedMsAgo: 60_000 });
    leases.start();
    await backend.untilFrame((asked) => isRenewal(asked) && asked.frame.runs.length === 2);
    // A third lease is confirmed by a later frame, so the answer of the first has been read.
    const control = hold(leases, { askedMsAgo: 60_000, epoch: 2 });
    fresh.letGo();
    late.letGo();
    while (!control.isConfirmed()) await backend.nextRenewal();
    expect([fresh, late].map((lease) => [lease.isConfirmed(), lease.lost.aborted])).toEqual([
      [true, false],
      [false, false],
    ]);
  });
});
