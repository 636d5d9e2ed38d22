import type { Graph } from '@onward/workflow-graph/graph';
import { Column, Entity, ForeignKey, PrimaryColumn, Unique } from 'typeorm';
import { Workflow } from './workflow.entity.js';
import type { WorkflowSettings } from './workflow-settings.js';

/** A published graph. Never changed after it is written; runs stay on the version they began with. */
@Entity('workflow_versions')
@Unique('workflow_versions_number', ['workflowId', 'number'])
export class WorkflowVersion {
  @PrimaryColumn('uuid') id!: string;
  @ForeignKey(() => Workflow, { name: 'workflow_versions_workflow', onDelete: 'CASCADE' })
  @Column('uuid', { name: 'workflow_id' })
  workflowId!: string;
  @Column('int') number!: number;
  @Column('jsonb') graph!: Graph;
  @Column('jsonb') settings!: WorkflowSettings;
  @Column('text', { name: 'published_by' }) publishedBy!: string;
  @Column('timestamptz', { name: 'published_at', default: () => 'now()' }) publishedAt!: Date;
}
