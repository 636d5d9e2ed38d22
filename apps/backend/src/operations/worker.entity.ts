import type { TargetReport } from '@onward/contracts/targets';
import { Column, Entity, PrimaryColumn } from 'typeorm';

/** What a worker said of itself with its last renewal. A view, not a truth: whoever is not heard of for a while is gone. Real clock. */
@Entity('workers')
export class WorkerRow {
  @PrimaryColumn('uuid') id!: string;
  @Column('timestamptz', { name: 'seen_at', default: () => 'clock_timestamp()' }) seenAt!: Date;
  @Column('int', { name: 'in_flight', default: 0 }) inFlight!: number;
  @Column('jsonb', { default: [] }) targets!: TargetReport[];
}
