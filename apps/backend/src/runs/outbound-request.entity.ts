import { Column, Entity, PrimaryColumn } from 'typeorm';
import type { FrozenRequest } from '../secrets/frozen-request.js';

/** The frozen request of a step: one body and one Idempotency-Key for all of its attempts. Values of secrets are not in it. */
@Entity('outbound_requests')
export class OutboundRequestRow {
  @PrimaryColumn('uuid', { name: 'run_id' })
  runId!: string;
  @PrimaryColumn('int') seq!: number;
  @Column('jsonb') request!: FrozenRequest;
  @Column('text', { name: 'idempotency_key' }) idempotencyKey!: string;
  /** SHA-256 of the body's bytes. */
  @Column('bytea', { name: 'body_hash' }) bodyHash!: Buffer;
}
