import type { Outcome } from '@onward/contracts/outcome';
import type { RunState } from '@onward/contracts/patterns';
import { Check, Column, Entity, ForeignKey, Index, PrimaryColumn } from 'typeorm';
import { Workflow } from '../workflows/workflow.entity.js';

/** Why a run rests while `waiting`. */
export const WAIT_REASONS = ['time', 'mail', 'event', 'target'] as const;
export type WaitReason = (typeof WAIT_REASONS)[number];

/**
 * A run is its own outbox: a row with `dueAt` that is not held is to be woken, and the queue is only told so.
 * Kept slim, for it is rewritten at every step: what steps gave lives in `attempts`, what the run was started with in `run_contexts`.
 * No index stands on a column that an advance changes (only such updates stay HOT).
 *
 * - `node`, `seq`, `n`: the cursor: the step the run stands on, its number from 1, and the attempt in hand (from 1).
 * - `claimId`, `callNo`, `handOutId`, `epoch`, `leaseUntil`: who may move it. Minted at every change that sets `dueAt`; the lease is real time.
 * - `lastClaimId`, `lastEpoch`, `lastSeq`: the frame that committed last; its repeat is answered from what was recorded.
 * - `takeovers`: lapses and take-overs at this seq; 25 bury the run.
 * - `reentryKey`: set while the run is live and its workflow allows one run a contact (reentry-key.ts).
 */
@Entity('runs')
@Check(
  'runs_state_columns',
  `CASE state
     WHEN 'pending' THEN due_at IS NOT NULL AND lease_until IS NULL AND ended_at IS NULL
     WHEN 'running' THEN due_at IS NULL AND lease_until IS NOT NULL AND ended_at IS NULL
     WHEN 'waiting' THEN (due_at IS NOT NULL OR wait_key IS NOT NULL) AND wait_reason IS NOT NULL AND lease_until IS NULL AND ended_at IS NULL
     WHEN 'awaiting_approval' THEN wait_key IS NOT NULL AND lease_until IS NULL AND ended_at IS NULL
     WHEN 'retrying' THEN due_at IS NOT NULL AND lease_until IS NULL AND ended_at IS NULL
     WHEN 'succeeded' THEN due_at IS NULL AND lease_until IS NULL AND ended_at IS NOT NULL AND reentry_key IS NULL
     WHEN 'failed' THEN due_at IS NULL AND lease_until IS NULL AND ended_at IS NOT NULL AND reentry_key IS NULL
     WHEN 'dead_lettered' THEN due_at IS NULL AND lease_until IS NULL AND ended_at IS NOT NULL AND reentry_key IS NULL
     WHEN 'cancelled' THEN due_at IS NULL AND lease_until IS NULL AND ended_at IS NOT NULL AND reentry_key IS NULL
     ELSE false END`,
)
@Index('runs_reentry_key', { synchronize: false })
@Index('runs_running', { synchronize: false })
@Index('runs_wait_key', { synchronize: false })
@Index('runs_held', { synchronize: false })
@Index('runs_unwoken', { synchronize: false })
@Index('runs_woken', { synchronize: false })
@Index('runs_parked', { synchronize: false })
@Index('runs_event', { synchronize: false })
@Index('runs_workflow', ['workflowId', 'id'])
@Index('runs_contact', ['contactId', 'id'])
export class Run {
  @PrimaryColumn('uuid') id!: string;
  @ForeignKey(() => Workflow, { name: 'runs_workflow_fk' })
  @Column('uuid', { name: 'workflow_id' })
  workflowId!: string;
  /** No foreign key: a version goes only with its workflow. */
  @Column('uuid', { name: 'version_id' }) versionId!: string;
  /** No foreign key: a contact may be deleted while its runs and their history stay. */
  @Column('uuid', { name: 'contact_id', nullable: true }) contactId!: string | null;
  @Column('text', { name: 'event_id', nullable: true }) eventId!: string | null;
  @Column('text') state!: RunState;
  @Column('text') node!: string;
  @Column('int') seq!: number;
  @Column('smallint', { default: 1 }) n!: number;
  @Column('timestamptz', { name: 'due_at', nullable: true }) dueAt!: Date | null;
  @Column('timestamptz', { name: 'woken_at', nullable: true }) wokenAt!: Date | null;
  @Column('boolean', { name: 'is_held', default: false }) isHeld!: boolean;
  @Column('uuid', { name: 'claim_id' }) claimId!: string;
  @Column('int', { name: 'call_no', default: -1 }) callNo!: number;
  @Column('uuid', { name: 'hand_out_id', nullable: true }) handOutId!: string | null;
  @Column('int', { default: 0 }) epoch!: number;
  @Column('timestamptz', { name: 'lease_until', nullable: true }) leaseUntil!: Date | null;
  @Column('uuid', { name: 'last_claim_id', nullable: true }) lastClaimId!: string | null;
  @Column('int', { name: 'last_epoch', default: 0 }) lastEpoch!: number;
  @Column('int', { name: 'last_seq', default: 0 }) lastSeq!: number;
  @Column('smallint', { default: 0 }) takeovers!: number;
  @Column('text', { name: 'wait_reason', nullable: true }) waitReason!: WaitReason | null;
  @Column('text', { name: 'wait_key', nullable: true }) waitKey!: string | null;
  @Column('jsonb', { nullable: true }) resolution!: Outcome | null;
  @Column('boolean', { name: 'is_cancel_asked', default: false }) isCancelAsked!: boolean;
  /** How many nodes of a type unknown to us the run passed without acting. */
  @Column('smallint', { name: 'unknown_nodes', default: 0 }) unknownNodes!: number;
  @Column('uuid', { name: 'reentry_key', nullable: true }) reentryKey!: string | null;
  /** A code of FAILURES, or why it was cancelled. */
  @Column('text', { name: 'end_reason', nullable: true }) endReason!: string | null;
  @Column('timestamptz', { name: 'created_at', default: () => 'onward_now()' }) createdAt!: Date;
  @Column('timestamptz', { name: 'ended_at', nullable: true }) endedAt!: Date | null;
}
