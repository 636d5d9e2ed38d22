import { Column, Entity, Index, PrimaryColumn } from 'typeorm';

export const RUN_REFUSALS = ['workflow_broken', 'reentry_never', 'reentry_running', 'event_chain_too_deep', 'not_active', 'contact_unknown'] as const;
export type RunRefusalReason = (typeof RUN_REFUSALS)[number];

/** Why a workflow that could have started a run did not: the answer to "why did this person not get it?". */
@Entity('run_refusals')
@Index('run_refusals_workflow', ['workflowId', 'id'])
@Index('run_refusals_contact', ['contactId', 'id'])
@Index('run_refusals_event', { synchronize: false })
export class RunRefusal {
  @PrimaryColumn('uuid') id!: string;
  @Column('uuid', { name: 'workflow_id' }) workflowId!: string;
  @Column('uuid', { name: 'version_id', nullable: true }) versionId!: string | null;
  @Column('text', { name: 'event_id', nullable: true }) eventId!: string | null;
  @Column('uuid', { name: 'contact_id', nullable: true }) contactId!: string | null;
  @Column('text') reason!: RunRefusalReason;
  @Column('text', { default: '' }) detail!: string;
  @Column('timestamptz', { name: 'created_at', default: () => 'onward_now()' }) createdAt!: Date;
}
