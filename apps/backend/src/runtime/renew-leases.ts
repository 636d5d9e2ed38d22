import type { FrameItem, RpcError } from '@onward/contracts/frame';
import { RUNTIME_PATTERNS, type ReplyOf } from '@onward/contracts/patterns';
import type { DataSource } from 'typeorm';
import { rows } from '../database/sql.js';
import { refused } from './checkpoint.js';
import { whereCan } from './moves.js';

type Renewal = { runId: string; claimId: string; renew: true; epoch: number };
type Renewed = { reply: ReplyOf<'automation.runtime.run.prepare'> } | { error: RpcError };

const BUSY: RpcError = { code: 'unavailable', detail: 'The run is being moved at this moment; its lease is as it was' };

export function isRenewal({ pattern, data }: FrameItem): boolean {
  return pattern === 'automation.runtime.run.prepare' && data['renew'] === true;
}

/**
 * Prolongs the leases of all runs a worker holds, in one statement. Never raises an epoch, locks nothing longer than itself and takes no
 * part in what a frame may repeat. It waits for no run: one that is locked is neither renewed nor refused, and the next renewal asks again.
 * `source` is the pool for what must not wait behind work. A run that is under another claim or epoch by now is refused: its worker lets go of it.
 */
export async function renewLeases(source: DataSource, items: readonly FrameItem[], leaseMs: number): Promise<Map<FrameItem, Renewed>> {
  if (items.length === 0) return new Map();
  const asked = new Map<FrameItem, Renewal>();
  for (const item of items) {
    const parsed = RUNTIME_PATTERNS['automation.runtime.run.prepare'].request.safeParse(item.data);
    if (parsed.success && 'renew' in parsed.data) asked.set(item, parsed.data);
  }
  const renewed = await rows<{ id: string; claimId: string; epoch: number; isRenewed: boolean }>(
    source,
    `WITH asked AS (SELECT * FROM jsonb_to_recordset($1::jsonb) AS one ("runId" uuid, "claimId" uuid, epoch integer)),
          mine AS (
            SELECT runs.id, claim_id, runs.epoch FROM runs JOIN asked ON runs.id = asked."runId" AND runs.claim_id = asked."claimId" AND runs.epoch = asked.epoch
            WHERE ${whereCan('advance')}),
          renewed AS (
            UPDATE runs SET lease_until = clock_timestamp() + $2 * interval '1 millisecond'
            WHERE id IN (SELECT id FROM runs WHERE id IN (SELECT id FROM mine) ORDER BY id FOR NO KEY UPDATE SKIP LOCKED)
              AND (id, claim_id, epoch) IN (SELECT "runId", "claimId", epoch FROM asked) AND ${whereCan('advance')}
            RETURNING id)
     SELECT mine.id, mine.claim_id AS "claimId", mine.epoch, renewed.id IS NOT NULL AS "isRenewed" FROM mine LEFT JOIN renewed USING (id)`,
    [JSON.stringify([...asked.values()]), leaseMs],
  );
  // By claim and epoch, not by run alone: a worker may hold an older claim of it beside the live one.
  const found = new Map(renewed.map((run) => [keyOf({ ...run, runId: run.id }), run]));
  return new Map(
    items.map((item): [FrameItem, Renewed] => {
      const renewal = asked.get(item);
      const run = renewal && found.get(keyOf(renewal));
      if (!run) return [item, { reply: refused('stale_epoch') }];
      return [item, run.isRenewed ? { reply: { kind: 'renewed', leaseMs } } : { error: BUSY }];
    }),
  );
}

function keyOf({ runId, claimId, epoch }: Pick<Renewal, 'runId' | 'claimId' | 'epoch'>): string {
  return `${runId}|${claimId}|${epoch}`;
}
