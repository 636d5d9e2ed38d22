import type { FrameItem } from '@onward/contracts/frame';
import { RUNTIME_PATTERNS, type ReplyOf } from '@onward/contracts/patterns';
import type { DataSource } from 'typeorm';
import { rows } from '../database/sql.js';
import { refused } from './checkpoint.js';
import { whereCan } from './moves.js';

type Renewal = { runId: string; claimId: string; renew: true; epoch: number };
type Reply = ReplyOf<'automation.runtime.run.prepare'>;

export function isRenewal({ pattern, data }: FrameItem): boolean {
  return pattern === 'automation.runtime.run.prepare' && data['renew'] === true;
}

/**
 * Prolongs the leases of all runs a worker holds, in one statement. Never raises an epoch, locks nothing longer than itself and takes no
 * part in what a frame may repeat. A run that is under another claim or epoch by now is refused: its worker lets go of it.
 */
export async function renewLeases(source: DataSource, items: readonly FrameItem[], leaseMs: number): Promise<Map<FrameItem, Reply>> {
  if (items.length === 0) return new Map();
  const asked = new Map<FrameItem, Renewal>();
  for (const item of items) {
    const parsed = RUNTIME_PATTERNS['automation.runtime.run.prepare'].request.safeParse(item.data);
    if (parsed.success && 'renew' in parsed.data) asked.set(item, parsed.data);
  }
  const renewed = await rows<{ id: string }>(
    source,
    `UPDATE runs SET lease_until = clock_timestamp() + $2 * interval '1 millisecond'
     FROM jsonb_to_recordset($1::jsonb) AS asked ("runId" uuid, "claimId" uuid, epoch integer)
     WHERE runs.id = asked."runId" AND runs.claim_id = asked."claimId" AND runs.epoch = asked.epoch AND ${whereCan('advance')}
     RETURNING runs.id`,
    [JSON.stringify([...asked.values()]), leaseMs],
  );
  const held = new Set(renewed.map(({ id }) => id));
  return new Map(
    items.map((item) => {
      const renewal = asked.get(item);
      const reply: Reply = renewal && held.has(renewal.runId) ? { kind: 'renewed', leaseMs } : refused('stale_epoch');
      return [item, reply];
    }),
  );
}
