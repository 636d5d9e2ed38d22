import type { Failure } from '@onward/contracts/outcome';
import { Column, Entity, Index, PrimaryColumn, Unique } from 'typeorm';

/** A failure somebody is to be told of; written in the transaction that ended the run, sent afterwards. */
@Entity('notices')
@Unique('notices_step', ['runId', 'seq'])
@Index('notices_unsent', { synchronize: false })
export class Notice {
  @PrimaryColumn('uuid') id!: string;
  @Column('uuid', { name: 'run_id' }) runId!: string;
  @Column('int') seq!: number;
  @Column('text') state!: 'failed' | 'dead_lettered';
  @Column('text') node!: string;
  @Column('jsonb') failure!: Failure;
  @Column('timestamptz', { name: 'created_at', default: () => 'onward_now()' }) createdAt!: Date;
  @Column('timestamptz', { name: 'sent_at', nullable: true }) sentAt!: Date | null;
}
