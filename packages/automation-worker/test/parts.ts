/** The parts of a worker without its queue, on a real connection to a scripted backend. Everything is closed when its test is over. */
import { randomUUID } from 'node:crypto';
import { FRAME_PATTERN } from '@onward/contracts/frame';
import type { WakeUp } from '@onward/contracts/queues';
import type { TargetReport } from '@onward/contracts/targets';
import { BackendClient } from '@onward/wire/client';
import { FailPoints } from '@onward/wire/fail-points';
import { pino } from 'pino';
import { onTestFinished } from 'vitest';
import { Conversation } from '../src/conversation.js';
import { FrameBatcher } from '../src/frame-batcher.js';
import { Leases } from '../src/leases.js';
import { PlanCache } from '../src/plan-cache.js';
import { Targets } from '../src/targets/targets.js';
import { type Backend, type Script, startBackend } from './backend.js';

export type Parts = { backend: Backend; client: BackendClient; leases: Leases; plans: PlanCache; conversation: Conversation };

export const WORKER_ID = '00000000-0000-7000-8000-000000000001';

/** `leaseMs`: the worker's own setting; `report`: what it tells of its targets. The leases renew only once `leases.start()` is called. */
export async function startParts(
  script: Script = {},
  { leaseMs = 300, report = () => [] }: { leaseMs?: number; report?: () => TargetReport[] } = {},
): Promise<Parts> {
  const backend = await startBackend(script);
  const client = new BackendClient({ ...backend, timeoutMs: 10_000 });
  const leases = new Leases(client, WORKER_ID, leaseMs, report);
  const plans = new PlanCache();
  const frames = new FrameBatcher((text, options) => client.callWithText(FRAME_PATTERN, text, options), { timeoutMs: 10_000 });
  onTestFinished(async () => {
    leases.stop();
    client.close();
    await backend.close();
  });
  return { backend, client, leases, plans, conversation: new Conversation(client, frames, leases, plans, new FailPoints()) };
}

export function newWakeUp(): WakeUp {
  return { runId: randomUUID(), claimId: randomUUID() };
}

/** A gate before the targets. Unless a Valkey is named there is none. */
export function startTargets({
  concurrency = 200,
  breakerResetMs = 30_000,
  valkeyUrl = 'redis://127.0.0.1:1',
  workers = () => 1,
}: {
  concurrency?: number;
  breakerResetMs?: number;
  valkeyUrl?: string;
  workers?: () => number;
} = {}): Targets {
  const targets = new Targets({ concurrency, breakerResetMs, valkeyUrl, workers, log: pino({ level: 'silent' }) });
  onTestFinished(() => targets.close());
  return targets;
}
