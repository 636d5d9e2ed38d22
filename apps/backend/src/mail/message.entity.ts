import type { Failure } from '@onward/contracts/outcome';
import type { Resolved } from '../runs/attempt.entity.js';
import { Check, Column, Entity, Index, PrimaryColumn, Unique } from 'typeorm';

export const MESSAGE_STATES = ['prepared', 'begun', 'sent', 'failed', 'uncertain', 'skipped'] as const;
export type MessageState = (typeof MESSAGE_STATES)[number];

/**
 * One mail to one recipient, and its own outbox: `prepared → begun → sent | failed | uncertain | skipped`.
 * Keyed by (runId, seq), so a step writes one message however often it is entered; `messageIdHeader` never changes.
 * `try` counts hand-overs to SMTP; `begunUntil` (real clock) is when a begun one without result becomes uncertain.
 * `resultTry` is the latest try whose result was told; a try that only ran out of time has none, so its late result still counts.
 * `uncertainTries` counts the tries that may have been delivered: the second is the last.
 */
@Entity('messages')
@Unique('messages_step', ['runId', 'seq'])
@Index('messages_notice', { synchronize: false })
@Check('messages_state', `state IN ('prepared', 'begun', 'sent', 'failed', 'uncertain', 'skipped')`)
@Check('messages_begun_until', `(state = 'begun') = (begun_until IS NOT NULL)`)
@Index('messages_open', { synchronize: false })
@Index('messages_uncertain', { synchronize: false })
@Index('messages_resolved', { synchronize: false })
@Index('messages_created', ['createdAt', 'id'])
@Index('messages_contact', ['contactId', 'createdAt', 'id'])
export class Message {
  @PrimaryColumn('uuid') id!: string;
  @Column('uuid', { name: 'run_id', nullable: true }) runId!: string | null;
  @Column('int', { nullable: true }) seq!: number | null;
  @Column('uuid', { name: 'notice_id', nullable: true }) noticeId!: string | null;
  @Column('uuid', { name: 'contact_id', nullable: true }) contactId!: string | null;
  @Column('uuid', { name: 'template_id', nullable: true }) templateId!: string | null;
  @Column('boolean', { name: 'is_transactional' }) isTransactional!: boolean;
  @Column('text', { default: 'prepared' }) state!: MessageState;
  @Column('smallint', { default: 1 }) try!: number;
  @Column('smallint', { name: 'result_try', default: 0 }) resultTry!: number;
  @Column('smallint', { name: 'uncertain_tries', default: 0 }) uncertainTries!: number;
  @Column('timestamptz', { name: 'begun_until', nullable: true }) begunUntil!: Date | null;
  /** The delivery that began the try; the same one asking again is told to send again. */
  @Column('uuid', { name: 'begun_by', nullable: true }) begunBy!: string | null;
  @Column('timestamptz', { name: 'woken_at', nullable: true }) wokenAt!: Date | null;
  @Column('text', { name: 'message_id_header' }) messageIdHeader!: string;
  @Column('jsonb', { name: 'from_mailbox' }) from!: Mailbox;
  @Column('jsonb', { name: 'to_mailbox' }) to!: Mailbox;
  @Column('jsonb', { name: 'reply_to_mailbox', nullable: true }) replyTo!: Mailbox | null;
  @Column('text') subject!: string;
  @Column('text', { nullable: true }) html!: string | null;
  @Column('text', { nullable: true }) text!: string | null;
  @Column('text', { nullable: true }) response!: string | null;
  @Column('jsonb', { nullable: true }) failure!: Failure | null;
  @Column('text', { name: 'skip_reason', nullable: true }) skipReason!: string | null;
  /** What a person has found out about an uncertain delivery. */
  @Column('jsonb', { nullable: true }) resolved!: Resolved | null;
  @Column('timestamptz', { name: 'created_at', default: () => 'now()' }) createdAt!: Date;
  @Column('timestamptz', { name: 'ended_at', nullable: true }) endedAt!: Date | null;
}

export type Mailbox = { name: string; address: string };
