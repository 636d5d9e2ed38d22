import type { Json } from '@onward/contracts/json';
import { Column, Entity, PrimaryColumn } from 'typeorm';

/** What a run was started with; written with the run and never changed. */
export type RunContext = {
  trigger: 'manual' | 'event';
  event: { id: string; type: string; occurredAt: string; payload: Record<string, Json> } | null;
  contact: { id: string; externalId: string | null; email: string | null; attributes: Record<string, Json> } | null;
  /** Runs between an outside cause and this one. */
  depth: number;
  startedBy: string;
};

@Entity('run_contexts')
export class RunContextRow {
  @PrimaryColumn('uuid', { name: 'run_id' })
  runId!: string;
  @Column('jsonb') context!: RunContext;
}
