import type { FrameItem, RpcError } from '@onward/contracts/frame';
import { RUNTIME_PATTERNS } from '@onward/contracts/patterns';
import { isRenewal } from './renew-leases.js';

type ReadItems = { runId: string } | { error: RpcError };

/** Checks every item against its pattern before anything is touched; the items of one run name that run. */
export function readItems(items: readonly FrameItem[]): ReadItems {
  let runId: string | undefined;
  let hasClaimed = false;
  for (const [index, { pattern, data }] of items.entries()) {
    if (items.length > 1 && isRenewal({ pattern, data })) return { error: { code: 'invalid', detail: `items[${index}]: a renewal comes alone` } };
    const parsed = RUNTIME_PATTERNS[pattern].request.safeParse(data);
    if (!parsed.success) return { error: { code: 'invalid', detail: `${pattern}: ${describe(parsed.error.issues)}` } };
    const request = parsed.data as { runId: string; epoch?: number; seq?: number };
    if (runId !== undefined && runId !== request.runId)
      return { error: { code: 'invalid', detail: `items[${index}].runId: the items of one run must name that run` } };
    runId = request.runId;
    const isPrepare = pattern === 'automation.runtime.run.prepare';
    if (!isPrepare && !hasClaimed && (request.epoch === undefined || request.seq === undefined)) {
      return { error: { code: 'invalid', detail: `${pattern}: epoch and seq may be left out only after a prepare or an advance of the same frame` } };
    }
    hasClaimed ||= isPrepare || pattern === 'automation.runtime.run.advance';
  }
  return runId === undefined ? { error: { code: 'invalid', detail: 'items: at least one is needed' } } : { runId };
}

function describe(issues: readonly { path: PropertyKey[]; message: string }[]): string {
  return issues
    .map(({ path, message }) => `${path.join('.') || 'data'}: ${message}`)
    .join('; ')
    .slice(0, 500);
}
