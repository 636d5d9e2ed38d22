import { Entity, PrimaryColumn } from 'typeorm';

/** The ledger behind re-entry `never`: who has ever entered a workflow, also after the run itself is pruned. */
@Entity('run_entries')
export class RunEntry {
  @PrimaryColumn('uuid', { name: 'workflow_id' }) workflowId!: string;
  @PrimaryColumn('uuid', { name: 'contact_id' }) contactId!: string;
}
