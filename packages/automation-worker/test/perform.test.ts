/** What may still be sent, and when: against a real target and a real lease. */
import type { Outcome } from '@onward/contracts/outcome';
import { FailPoints } from '@onward/wire/fail-points';
import { beforeEach, describe, expect, onTestFinished, test } from 'vitest';
import type { Step } from '../src/conversation.js';
import type { Held } from '../src/leases.js';
import { createPerform } from '../src/perform.js';
import { refused, type Script, SECRET } from './backend.js';
import { newWakeUp, startParts, startTargets } from './parts.js';
import { startTarget, type Target } from './target.js';

const going = new AbortController().signal;
let target: Target;
let cut: AbortController;

beforeEach(() => {
  cut = new AbortController();
});

async function startTargetOf(options: { answersAtOnce?: boolean } = {}) {
  target = await startTarget(options);
  onTestFinished(target.close);
}

/** A lease asked for so many ms ago. */
async function leaseOf({ askedMsAgo = 0, leaseMs = 60_000, script = {} as Script } = {}) {
  const { leases, ...parts } = await startParts(script);
  const wakeUp = newWakeUp();
  return { ...parts, leases, wakeUp, lease: leases.hold({ ...wakeUp, epoch: 1, leaseMs }, performance.now() - askedMsAgo) };
}

function stepOf(lease: Held, work: Step['work']): Step {
  return {
    ...newWakeUp(),
    epoch: 1,
    seq: 1,
    n: 1,
    node: 'node-1',
    versionId: '0190c0de-0000-7000-8000-00000000aaaa',
    plan: { type: 'action', performedBy: 'worker', hasFailedPort: false, uncertainPolicy: 'resend' },
    tally: { failed: 0, uncertain: 0 },
    work,
    lease,
  };
}

function perform(lease: Held, stopping: AbortSignal = going): Promise<Outcome> {
  const send = createPerform({ allow: target.allow, cut: cut.signal, targets: startTargets(), failPoints: new FailPoints(), secret: SECRET });
  return send(stepOf(lease, { kind: 'send', request: target.request, target: target.limits }), stopping);
}

test('a request is sent once, and what came of it is the outcome', async () => {
  await startTargetOf();
  const { lease } = await leaseOf();
  expect(await perform(lease)).toMatchObject({ kind: 'done', output: { status: 200, body: { ok: true } } });
  expect(target.received.map(({ body }) => body)).toEqual([target.request.body]);
});

test('what the backend has done already is its outcome, whatever the worker is at', async () => {
  await startTargetOf();
  const { lease } = await leaseOf({ askedMsAgo: 60_000 });
  const outcome: Outcome = { kind: 'done', output: 'of the backend' };
  const send = createPerform({ allow: target.allow, cut: AbortSignal.abort(), targets: startTargets(), failPoints: new FailPoints(), secret: SECRET });
  expect(await send(stepOf(lease, { kind: 'outcome', outcome }), AbortSignal.abort())).toEqual(outcome);
});

describe('nothing is sent, not even a connection is made,', () => {
  test('when the worker is stopping', async () => {
    await startTargetOf();
    const { lease } = await leaseOf();
    expect(await perform(lease, AbortSignal.abort())).toEqual({ kind: 'not_sent', why: 'the worker is stopping' });
    expect(target.connections()).toBe(0);
  });

  test('when the lease was not confirmed within its own length', async () => {
    await startTargetOf();
    const { lease } = await leaseOf({ askedMsAgo: 60_000, leaseMs: 60_000 });
    expect(await perform(lease)).toEqual({ kind: 'not_sent', why: 'the lease was not confirmed in time' });
    expect(target.connections()).toBe(0);
  });

  test('when the lease is lost', async () => {
    await startTargetOf();
    const { lease, leases, backend } = await leaseOf({ script: { renew: () => refused('stale_epoch') } });
    expect(lease.isConfirmed()).toBe(true);
    leases.start();
    const lost = new Promise((resolve) => lease.lost.addEventListener('abort', resolve));
    await backend.nextRenewal();
    await lost;
    expect(await perform(lease)).toMatchObject({ kind: 'not_sent' });
    expect(target.connections()).toBe(0);
  });
});

describe('a send in flight', () => {
  test('ends when its lease is lost, and is uncertain', async () => {
    await startTargetOf({ answersAtOnce: false });
    const { lease, leases } = await leaseOf({ script: { renew: () => refused('stale_epoch') } });
    const outcome = perform(lease);
    const { closed } = await target.nth(1);
    leases.start();
    expect(await outcome).toMatchObject({ kind: 'uncertain', failure: { code: 'process_died' } });
    await closed;
  });

  test('goes on when the worker is told to stop', async () => {
    await startTargetOf({ answersAtOnce: false });
    const { lease } = await leaseOf();
    const stopping = new AbortController();
    const outcome = perform(lease, stopping.signal);
    const { response } = await target.nth(1);
    stopping.abort();
    response.writeHead(204).end();
    expect(await outcome).toMatchObject({ kind: 'done', output: { status: 204 } });
  });

  test('ends when the worker cuts it, and is uncertain', async () => {
    await startTargetOf({ answersAtOnce: false });
    const { lease } = await leaseOf();
    const outcome = perform(lease);
    await target.nth(1);
    cut.abort(new Error('the worker is stopping'));
    expect(await outcome).toMatchObject({ kind: 'uncertain', failure: { code: 'process_died' } });
  });
});
