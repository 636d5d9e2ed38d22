import type { Json } from '@onward/contracts/json';
import type { Failure } from '@onward/contracts/outcome';
import type { Verb } from '@onward/contracts/patterns';
import { Check, Column, Entity, Index, PrimaryColumn } from 'typeorm';

/**
 * `open`: begun, nothing has left. `sending`: the intent is committed and bytes may leave. `waiting`: the step rests.
 * The others are ends; `not_sent` alone is opened again under the same n.
 */
export const ATTEMPT_STATUSES = ['open', 'sending', 'waiting', 'done', 'failed', 'uncertain', 'not_sent'] as const;
export type AttemptStatus = (typeof ATTEMPT_STATUSES)[number];

/** Did what was uncertain happen after all? Who says so, and when (RFC 3339). */
export type Resolved = { happened: boolean; by: string; at: string };

/** One try of a step; a step is the set of its attempts, and history is all of them in order. A structural node writes one. */
@Entity('attempts')
@Check('attempts_status', `status IN ('open', 'sending', 'waiting', 'done', 'failed', 'uncertain', 'not_sent')`)
@Index('attempts_uncertain', { synchronize: false })
export class Attempt {
  @PrimaryColumn('uuid', { name: 'run_id' })
  runId!: string;
  @PrimaryColumn('int') seq!: number;
  @PrimaryColumn('smallint') n!: number;
  @Column('text') node!: string;
  @Column('text', { name: 'node_type' }) nodeType!: string;
  @Column('text') status!: AttemptStatus;
  @Column('int') epoch!: number;
  /** The way out that was taken. */
  @Column('text', { nullable: true }) port!: string | null;
  /** The verb the outcome was judged to. */
  @Column('text', { nullable: true }) verb!: Verb | null;
  /** The values a decision saw, or the filled configuration of an action. */
  @Column('jsonb', { nullable: true }) input!: Json;
  @Column('jsonb', { nullable: true }) output!: Json;
  @Column('jsonb', { nullable: true }) failure!: Failure | null;
  @Column('jsonb', { nullable: true }) warnings!: string[] | null;
  @Column('text', { nullable: true }) mark!: 'skipped' | 'uncertain' | 'unknown_node' | null;
  /** What a person has found out about an uncertain attempt. */
  @Column('jsonb', { nullable: true }) resolved!: Resolved | null;
  /** Set on the first attempt of a step that a replay opened: the seq that had failed. */
  @Column('int', { name: 'replay_of', nullable: true }) replayOf!: number | null;
  @Column('timestamptz', { name: 'started_at', default: () => 'onward_now()' }) startedAt!: Date;
  @Column('timestamptz', { name: 'ended_at', nullable: true }) endedAt!: Date | null;
}
