import type { OutboundRequest } from '@onward/contracts/outbound';
import { Column, Entity, ForeignKey, PrimaryColumn } from 'typeorm';
import { Run } from './run.entity.js';

/** The frozen request of a step: one body and one Idempotency-Key for all of its attempts. */
@Entity('outbound_requests')
export class OutboundRequestRow {
  @ForeignKey(() => Run, { name: 'outbound_requests_run', onDelete: 'CASCADE' })
  @PrimaryColumn('uuid', { name: 'run_id' })
  runId!: string;
  @PrimaryColumn('int') seq!: number;
  @Column('jsonb') request!: OutboundRequest;
  @Column('text', { name: 'idempotency_key' }) idempotencyKey!: string;
  /** SHA-256 of the body's bytes. */
  @Column('bytea', { name: 'body_hash' }) bodyHash!: Buffer;
}
