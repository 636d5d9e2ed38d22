/** The parts of a worker without its queue, on a real connection to a scripted backend. Everything is closed when its test is over. */
import { randomUUID } from 'node:crypto';
import type { WakeUp } from '@onward/contracts/queues';
import { BackendClient } from '@onward/wire/client';
import { FailPoints } from '@onward/wire/fail-points';
import { onTestFinished } from 'vitest';
import { Conversation } from '../src/conversation.js';
import { Leases } from '../src/leases.js';
import { PlanCache } from '../src/plan-cache.js';
import { type Backend, type Script, startBackend } from './backend.js';

export type Parts = { backend: Backend; client: BackendClient; leases: Leases; plans: PlanCache; conversation: Conversation };

export const WORKER_ID = '00000000-0000-7000-8000-000000000001';

/** `leaseMs`: the worker's own setting. The leases renew only once `leases.start()` is called. */
export async function startParts(script: Script = {}, { leaseMs = 300 }: { leaseMs?: number } = {}): Promise<Parts> {
  const backend = await startBackend(script);
  const client = new BackendClient({ ...backend, timeoutMs: 10_000 });
  const leases = new Leases(client, WORKER_ID, leaseMs);
  const plans = new PlanCache();
  onTestFinished(async () => {
    leases.stop();
    client.close();
    await backend.close();
  });
  return { backend, client, leases, plans, conversation: new Conversation(client, leases, plans, new FailPoints()) };
}

export function newWakeUp(): WakeUp {
  return { runId: randomUUID(), claimId: randomUUID() };
}
