import type { Graph } from '@onward/workflow-graph/graph';
import { Check, Column, Entity, Index, PrimaryColumn } from 'typeorm';
import type { TriggerConfig, WorkflowSettings, WorkflowStatus } from './workflow-settings.js';

/** The thing people edit. `trigger` is what dispatchers read; `draftTrigger` is the draft's and means nothing to them. */
@Entity('workflows')
@Check('workflows_status', `status IN ('draft', 'active', 'paused')`)
@Check('workflows_archived_is_not_active', `archived_at IS NULL OR status <> 'active'`)
@Check('workflows_active_has_version', `status = 'draft' OR version_id IS NOT NULL`)
@Index('workflows_active_event', { synchronize: false })
export class Workflow {
  @PrimaryColumn('uuid') id!: string;
  @Column('text') name!: string;
  @Column('text', { default: '' }) description!: string;
  @Column('text', { default: 'draft' }) status!: WorkflowStatus;
  @Column('jsonb') draft!: Graph;
  @Column('jsonb', { name: 'draft_trigger', nullable: true }) draftTrigger!: TriggerConfig | null;
  @Column('jsonb', { nullable: true }) trigger!: TriggerConfig | null;
  @Column('jsonb') settings!: WorkflowSettings;
  /** The published version that new runs take. */
  @Column('uuid', { name: 'version_id', nullable: true }) versionId!: string | null;
  /** When runs held by a pause were let go of last (real clock); they are let go of at a pace. */
  @Column('timestamptz', { name: 'let_go_at', nullable: true }) letGoAt!: Date | null;
  /** Rises with every change of the draft; a client may send it back as If-Match to not overwrite another's change. */
  @Column('int', { default: 1 }) revision!: number;
  @Column('timestamptz', { name: 'archived_at', nullable: true }) archivedAt!: Date | null;
  @Column('timestamptz', { name: 'created_at', default: () => 'now()' }) createdAt!: Date;
  @Column('timestamptz', { name: 'updated_at', default: () => 'now()' }) updatedAt!: Date;
}
